package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// worker makes requests through a proxy, one after another.
type worker interface {
	request() error
	close()
}

// client is a worker that speaks HTTP/1.1. It does as little as possible, to leave the CPU to
// the proxy.
type client struct {
	proxy  string
	tunnel string        // the authority to CONNECT to; "": none
	tls    *tls.Config   // inside the tunnel, or right away; nil: none
	each   bool          // a new connection for each request
	next   func() []byte // returns the next request

	conn net.Conn // nil: not connected
	r    *bufio.Reader

	handshakes, resumed int // resumed of handshakes
}

// get returns a GET in the form that is sent.
func get(target, host string) []byte {
	return []byte("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" +
		"User-Agent: " + userAgent + "\r\nAccept: text/html, application/xhtml+xml, */*;q=0.8\r\n" +
		"Accept-Language: en\r\nAccept-Encoding: gzip, deflate\r\n\r\n")
}

const userAgent = "ExampleBot/1.0 (+https://example.org/bot)"

// clientTimeout bounds a connection's life over HTTP/1.1, and a request over HTTP/2.
const clientTimeout = 2 * time.Minute

func (c *client) request() error {
	request, reused := c.next(), c.conn != nil
	if !reused {
		if err := c.connect(); err != nil {
			c.close()
			return err
		}
	}
	resp, err := c.exchange(request)
	if errors.Is(err, errGone) && reused { // a proxy may close an idle connection at any time
		c.close()
		if err = c.connect(); err == nil {
			resp, err = c.exchange(request)
		}
	}
	if err != nil || resp.Close || c.each {
		c.close()
	}
	return err
}

var errGone = errors.New("the proxy has closed the connection")

// exchange sends a request and reads the whole response.
func (c *client) exchange(request []byte) (*http.Response, error) {
	if _, err := c.conn.Write(request); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	if _, err := c.r.Peek(1); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the response is %s", resp.Status)
	}
	return resp, nil
}

// connect opens a connection, and in it the tunnel and TLS, if there are any.
func (c *client) connect() error {
	var err error
	if c.conn, err = net.Dial("tcp", c.proxy); err != nil {
		return err
	}
	c.conn.SetDeadline(time.Now().Add(clientTimeout))
	c.r = bufio.NewReader(c.conn)
	if c.tunnel != "" {
		if err := c.openTunnel(); err != nil {
			return fmt.Errorf("opening a tunnel: %w", err)
		}
	}
	if c.tls == nil {
		return nil
	}
	secure := tls.Client(c.conn, c.tls)
	if err := secure.Handshake(); err != nil {
		return err
	}
	c.conn = secure
	c.handshakes++
	if secure.ConnectionState().DidResume {
		c.resumed++
	}
	c.r.Reset(secure)
	return nil
}

func (c *client) openTunnel() error {
	if _, err := fmt.Fprintf(c.conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\nUser-Agent: %s\r\n\r\n", c.tunnel, userAgent); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || c.r.Buffered() > 0 {
		return errors.New(resp.Status)
	}
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// h2Client is a worker that shares one connection over HTTP/2 with others.
type h2Client struct {
	client *http.Client
	target string
}

// newH2Transport returns a transport with a connection that h2Clients share.
func newH2Transport(proxy string) *http.Transport {
	return &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}),
		TLSClientConfig:   clientTLS("h2"),
		ForceAttemptHTTP2: true,
	}
}

func (c *h2Client) request() error {
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.target, nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", userAgent)
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	switch {
	case resp.ProtoMajor != 2:
		return errors.New("the response is in " + resp.Proto)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the response is %s (%s)", resp.Status, resp.Header.Get("Proxy-Status"))
	}
	return nil
}

func (c *h2Client) close() { c.client.CloseIdleConnections() }

// h2OriginClient is a worker that asks another origin over HTTP/2 each time, each over a
// connection of its own.
type h2OriginClient struct {
	proxy string
	next  func() string
}

func (t *h2OriginClient) request() error {
	c := h2Client{&http.Client{Transport: newH2Transport(t.proxy)}, t.next()}
	defer c.close()
	return c.request()
}

func (t *h2OriginClient) close() {}

// clientTLS returns a configuration that verifies nothing, which would only take the client's
// CPU time.
func clientTLS(protocol string) *tls.Config {
	return &tls.Config{ServerName: "localhost", InsecureSkipVerify: true, NextProtos: []string{protocol}}
}
