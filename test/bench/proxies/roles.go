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

// serveGoproxy is the role of goproxy by itself, set up as well as it can be: with
// robotsproxy's transport, and its own reading of TLS with certificates that are
// kept. It judges nothing.
func serveGoproxy(args []string) error {
	if len(args) != 3 {
		return errors.New("goproxy wants an address and the files of the CA and its key")
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
		return fmt.Errorf("%s has no certificate", args[1])
	}
	p := goproxy.NewProxyHttpServer()
	p.Tr = tunedTransport()
	p.Tr.TLSClientConfig = &tls.Config{RootCAs: roots}
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

// tunedTransport is set as robotsproxy sets its own.
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

// certificates is goproxy's store of those that it has signed.
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

// serveReverseProxy is the role of the least that a proxy on net/http does: the
// standard library's, sent to where the request's own URL says.
func serveReverseProxy(args []string) error {
	if len(args) != 1 {
		return errors.New("reverseproxy wants an address")
	}
	return http.ListenAndServe(args[0], &httputil.ReverseProxy{
		Rewrite:    func(*httputil.ProxyRequest) {},
		Transport:  tunedTransport(),
		BufferPool: new(pieces),
	})
}

// pieces are buffers that are used again.
type pieces struct{ pool sync.Pool }

func (p *pieces) Get() []byte {
	if piece, _ := p.pool.Get().(*[32 << 10]byte); piece != nil {
		return piece[:]
	}
	return make([]byte, 32<<10)
}

func (p *pieces) Put(piece []byte) { p.pool.Put((*[32 << 10]byte)(piece)) }
