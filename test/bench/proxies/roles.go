package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
)

// serveGoproxy is the role of goproxy by itself, configured for speed: with robotsproxy's
// transport, and with certificates that it keeps. It judges nothing. It asks https origins over
// HTTP/2, for which all clients share connections, or over HTTP/1.1 if the last argument says
// so.
func serveGoproxy(args []string) error {
	if len(args) != 3 && (len(args) != 4 || args[3] != "http/1.1") {
		return errors.New("goproxy needs an address and the files of the CA and its key, and may have http/1.1")
	}
	ca, err := tls.LoadX509KeyPair(args[1], args[2])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate", args[1])
	}
	p := goproxy.NewProxyHttpServer()
	p.Tr = tunedTransport()
	p.Tr.TLSClientConfig = &tls.Config{RootCAs: roots}
	if len(args) == 4 {
		p.Tr.Protocols = new(http.Protocols)
		p.Tr.Protocols.SetHTTP1(true)
	}
	p.ConnectDial = nil
	p.KeepAcceptEncoding = true
	p.AllowHTTP2 = true
	p.CertStore = &certificates{kept: map[string]*tls.Certificate{}}
	mitm := &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
	p.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		return mitm, host
	}))
	return http.ListenAndServe(args[0], p)
}

// tunedTransport returns a transport with robotsproxy's settings.
func tunedTransport() *http.Transport {
	return &http.Transport{
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          2048,
		MaxIdleConnsPerHost:   2048,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
	}
}

// certificates keeps the certificates that goproxy has signed.
type certificates struct {
	mu   sync.Mutex
	kept map[string]*tls.Certificate
}

func (c *certificates) Fetch(host string, sign func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cert := c.kept[host]; cert != nil {
		return cert, nil
	}
	cert, err := sign()
	if err == nil {
		c.kept[host] = cert
	}
	return cert, err
}

// serveReverseProxy is the role of the standard library's proxy, which sends each request to
// its own URL. That is the least work for a proxy on net/http.
func serveReverseProxy(args []string) error {
	if len(args) != 1 {
		return errors.New("reverseproxy needs an address")
	}
	return http.ListenAndServe(args[0], &httputil.ReverseProxy{
		Rewrite:    func(*httputil.ProxyRequest) {},
		Transport:  tunedTransport(),
		BufferPool: new(buffers),
	})
}

// buffers is a pool of buffers.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, _ := b.pool.Get().(*[32 << 10]byte); buffer != nil {
		return buffer[:]
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
