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

// A doorKind is a way into a proxy.
type doorKind string

const (
	plainDoor       doorKind = "plain HTTP"
	connectDoor     doorKind = "CONNECT" // at the address of plainDoor
	tlsDoor         doorKind = "TLS to the proxy"
	socksDoor       doorKind = "SOCKS"
	transparentDoor doorKind = "transparent"
)

// patience is how long a client waits for anything. It ends what hangs, and nothing that is
// only slow.
const patience = 90 * time.Second

// A session is a connection by one door to one origin, over which requests go one after the
// other, or all at once over HTTP/2.
type session struct {
	conn     net.Conn
	reader   *bufio.Reader
	absolute bool             // requests name their whole URL
	http2    *http.ClientConn // nil over HTTP/1.1
}

func (s *session) close() {
	if s.http2 != nil {
		s.http2.Close()
	}
	s.conn.Close()
}

// dial connects to a door.
func (c *client) dial(door doorKind, o *origin) (net.Conn, error) {
	address := c.proxy.doors[door]
	if door == transparentDoor {
		address = o.address // and the kernel leads it to the door
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	if door != tlsDoor {
		return conn, nil
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: "127.0.0.1"})
	if err := secure.Handshake(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS to the proxy: %w", err)
	}
	return secure, nil
}

// open opens a session.
func (c *client) open(door doorKind, o *origin) (_ *session, err error) {
	conn, err := c.dial(door, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	s := &session{conn: conn, reader: bufio.NewReader(conn)}
	switch {
	case door == plainDoor, o.ftp, door == tlsDoor && c.random.IntN(2) == 0:
		s.absolute = true
		return s, nil
	case door == connectDoor, door == tlsDoor:
		err = s.connect(o.address)
	case door == socksDoor:
		err = s.socks(o.address)
	}
	if err != nil || !o.secure {
		return s, err
	}
	protocols := []string{"http/1.1"}
	if c.random.IntN(2) == 0 {
		protocols = []string{"h2", "http/1.1"}
	}
	host, _, _ := net.SplitHostPort(o.address)
	secure := tls.Client(conn, &tls.Config{RootCAs: c.roots, ServerName: host, NextProtos: protocols})
	if err := secure.Handshake(); err != nil {
		return nil, fmt.Errorf("TLS by %s: %w", door, err)
	}
	s.conn, s.reader = secure, bufio.NewReader(secure)
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		s.http2, err = speakHTTP2(secure, o.address)
	}
	return s, err
}

// speakHTTP2 makes a connection one over HTTP/2. The transport sends no request twice, since it
// has this one connection.
func speakHTTP2(conn net.Conn, address string) (*http.ClientConn, error) {
	t := &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:      new(http.Protocols),
	}
	t.Protocols.SetHTTP2(true)
	return t.NewClientConn(context.Background(), "https", address)
}

// connect asks for a tunnel.
func (s *session) connect(address string) error {
	fmt.Fprintf(s.conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address)
	resp, err := http.ReadResponse(s.reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("CONNECT: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT: %s, %s", resp.Status, resp.Header.Get("Proxy-Status"))
	}
	return nil
}

// socks asks for a tunnel by SOCKS 5 (RFC 1928).
func (s *session) socks(address string) error {
	to, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return err
	}
	request := append([]byte{5, 1, 0, 1}, to.IP.To4()...)
	request = append(request, byte(to.Port>>8), byte(to.Port))
	var answer [10]byte
	if _, err := s.conn.Write([]byte{5, 1, 0}); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if _, err := io.ReadFull(s.reader, answer[:2]); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if _, err := s.conn.Write(request); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if _, err := io.ReadFull(s.reader, answer[:]); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if answer[1] != 0 {
		return fmt.Errorf("SOCKS: code %d", answer[1])
	}
	return nil
}

// send sends a request, and returns its response.
func (s *session) send(r *http.Request) (*http.Response, error) {
	if s.http2 != nil {
		ctx, cancel := context.WithTimeoutCause(r.Context(), patience, errors.New("no response in time"))
		resp, err := s.http2.RoundTrip(r.WithContext(ctx))
		if err != nil {
			cancel()
			return nil, err
		}
		resp.Body = &cancelling{resp.Body, cancel}
		return resp, nil
	}
	s.conn.SetDeadline(time.Now().Add(patience))
	write := r.Write
	if s.absolute {
		write = r.WriteProxy
	}
	writeErr := write(s.conn)
	if body, ok := r.Body.(*slowBody); ok && body.hasLeft {
		return nil, writeErr // nobody answers half a request
	}
	resp, err := http.ReadResponse(s.reader, r) // even one to a request that was not read
	if err != nil {
		return nil, errors.Join(writeErr, err)
	}
	return resp, nil
}

// leave is called when no more of a response is read. The session is over then, unless all
// has been read.
func (s *session) leave(resp *http.Response) {
	if s.http2 != nil {
		resp.Body.Close()
	}
	// Over HTTP/1.1, Close would read all that is left, without an end.
}

type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}

// request is that of an exchange.
func (x *exchange) request(body io.ReadCloser, length int64) (*http.Request, error) {
	to, err := url.Parse(x.origin.url(x.path))
	if err != nil {
		return nil, err
	}
	return &http.Request{
		Method: x.method, URL: to, Host: x.origin.address, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"User-Agent": {x.agent}, idField: {fmt.Sprint(x.id)}, "Accept": {"application/problem+json, */*;q=0.5"},
		},
		Body: body, ContentLength: length,
	}, nil
}
