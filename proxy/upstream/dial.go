package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/proxy"

	"robotsproxy/internal/shortage"
	"robotsproxy/internal/slots"
	"robotsproxy/robots"
)

// Dial opens a connection for a tunnel to an origin, directly or through the parent proxy.
// It makes the same checks as [Transport.RoundTrip]. The caller must close the connection.
func (t *Transport) Dial(ctx context.Context, origin robots.Origin) (net.Conn, error) {
	address := net.JoinHostPort(origin.Host, origin.Port)
	way := t.routeTo(ctx, origin)
	if way.parent == nil {
		return way.dialer.DialContext(ctx, "tcp", address)
	}
	if err := t.CheckOrigin(ctx, origin); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, way.dialer.Timeout)
	defer cancel()
	return way.dialByParent(ctx, address)
}

func (r *route) dialByParent(ctx context.Context, address string) (net.Conn, error) {
	if r.parent.Scheme == "socks5" {
		auth := (*proxy.Auth)(nil)
		if user := r.parent.User; user != nil {
			password, _ := user.Password()
			auth = &proxy.Auth{User: user.Username(), Password: password}
		}
		socks, err := proxy.SOCKS5("tcp", hostPort(r.parent, socksPort), auth, r.dialer)
		if err != nil {
			return nil, err
		}
		return socks.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	}
	conn, err := r.dialer.DialContext(ctx, "tcp", hostPort(r.parent, robots.DefaultPort(r.parent.Scheme)))
	if err != nil {
		return nil, err
	}
	if r.parent.Scheme == "https" {
		config := r.verifying.tls.Clone()
		config.ServerName = r.parent.Hostname()
		config.NextProtos = nil
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, &parentError{r.dialer.parent, err}
		}
		conn = secure
	}
	return askParent(ctx, conn, r.parent, address)
}

// askParent asks a parent proxy for a tunnel (RFC 9110 9.3.6).
func askParent(ctx context.Context, conn net.Conn, parent *url.URL, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": nil}}
	if user := parent.User; user != nil {
		password, _ := user.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	read := bufio.NewReaderSize(conn, 1024)
	err := r.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(read, r)
	}
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("asking the parent proxy for a tunnel to %s: %w", address, err)
	}
	return &bufferedConn{conn, read}, nil
}

// bufferedConn is a connection from which some octets have been read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite tells the parent that nothing more will be sent.
func (c *bufferedConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return errors.ErrUnsupported
}

const socksPort = "1080" // of SOCKS proxies whose URL names none

func hostPort(u *url.URL, defaultPort string) string {
	if port := u.Port(); port != "" {
		return net.JoinHostPort(u.Hostname(), port)
	}
	return net.JoinHostPort(u.Hostname(), defaultPort)
}

// dialer opens connections to origins and parents, each of which takes a slot among the
// descriptors.
type dialer struct {
	net.Dialer
	descriptors *slots.Slots
	open        *openConns
	parent      string // the parent proxy that it dials, for errors; "" if it dials origins
}

// DialContext fails with [shortage.ErrConnections] when no slot is free.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !d.descriptors.Take() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: shortage.ErrConnections}
	}
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		if d.descriptors.Give(); shortage.OfDescriptors(err) {
			d.descriptors.Exhausted()
		}
		if d.parent != "" && !shortage.Is(err) {
			err = &parentError{d.parent, err}
		}
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	way := wayOf(tcp)
	d.open.add(way)
	return &dialed{tcp, sync.OnceFunc(func() {
		d.open.remove(way)
		d.descriptors.Give()
	})}, nil
}

// dialed is a connection that gives back its slot when it is closed.
type dialed struct {
	*net.TCPConn
	closed func()
}

func (c *dialed) Close() error {
	err := c.TCPConn.Close()
	c.closed()
	return err
}

// openConns are the open connections of a transport.
type openConns struct{ ways sync.Map }

// A way is what both ends of a connection know of it, even if the kernel has redirected it:
// the address that it comes from, and the one that was dialled.
type way struct{ from, to netip.AddrPort }

func wayOf(conn *net.TCPConn) way {
	return way{plainAddress(conn.LocalAddr()), plainAddress(conn.RemoteAddr())}
}

// plainAddress has no zone and, if it is an IPv4 one, is not mapped into IPv6.
func plainAddress(a net.Addr) netip.AddrPort {
	address := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(address.Addr().Unmap().WithZone(""), address.Port())
}

func (o *openConns) add(w way)    { o.ways.Store(w, nil) }
func (o *openConns) remove(w way) { o.ways.Delete(w) }

// IsOwn reports whether a connection that comes from one address and was to go to another is
// one that this transport has opened: then the kernel has led it back to this program. That
// is certain from the first octet on that the connection brings. The addresses must have no
// zone and, if they are IPv4 ones, must not be mapped into IPv6.
func (t *Transport) IsOwn(from, to netip.AddrPort) bool {
	_, open := t.open.ways.Load(way{from, to})
	return open
}
