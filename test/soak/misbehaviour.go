package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// leaveEarly leaves at some point of an exchange.
func (c *client) leaveEarly(_ context.Context, door doorKind, o *origin) {
	x := c.exchange(door, o, http.MethodGet)
	defer c.checker.abandon(x, "left early")
	s, err := c.open(door, o)
	if err != nil {
		return
	}
	defer s.close()
	r, err := x.request(nil, 0)
	if err != nil {
		return
	}
	if c.random.IntN(2) == 0 && s.http2 == nil { // before the response
		r.Write(s.conn)
		return
	}
	resp, err := s.send(r)
	if err != nil {
		return
	}
	defer s.leave(resp)
	io.CopyN(io.Discard, resp.Body, int64(c.random.IntN(4096)))
}

// neverRead asks for pages whose responses it does not read, and stays for a while.
func (c *client) neverRead(ctx context.Context, door doorKind, o *origin) {
	x := c.exchange(door, o, http.MethodGet)
	defer c.checker.abandon(x, "never read")
	for range 20 { // for many have little to read
		if x.page.fault == endless {
			break
		}
		c.checker.abandon(x, "chose another page")
		x = c.exchange(door, o, http.MethodGet)
	}
	s, err := c.open(door, o)
	if err != nil {
		return
	}
	defer s.close()
	r, err := x.request(nil, 0)
	if err != nil {
		return
	}
	if s.http2 != nil {
		if resp, err := s.send(r); err == nil {
			defer s.leave(resp)
		}
	} else {
		r.Write(s.conn)
	}
	pause(ctx, time.Duration(c.random.IntN(5000))*time.Millisecond)
}

// sendSlowly sends a body in pieces, and often leaves before its end.
func (c *client) sendSlowly(ctx context.Context, door doorKind, o *origin) {
	x := c.exchange(door, o, http.MethodPost)
	s, err := c.open(door, o)
	if err != nil {
		c.checker.end(x, outcome{err: err})
		return
	}
	defer s.close()
	leaves := c.random.IntN(2) == 0
	body := &slowBody{ctx: ctx, content: x.page.uploaded(), left: x.page.upload, piece: x.page.upload/10 + 1}
	if leaves {
		body.leaveAt = c.random.IntN(x.page.upload + 1)
	}
	r, err := x.request(body, int64(x.page.upload))
	if err != nil {
		c.checker.end(x, outcome{err: err})
		return
	}
	resp, err := s.send(r)
	if err != nil {
		if leaves || ctx.Err() != nil {
			c.checker.abandon(x, "left within its body")
		} else {
			c.checker.end(x, outcome{err: err})
		}
		return
	}
	defer s.leave(resp)
	got := receive(resp, x)
	if leaves || ctx.Err() != nil || x.page.fault == endless {
		c.checker.abandon(x, "left within its body")
		return
	}
	c.checker.end(x, got)
}

var errLeft = errors.New("the client leaves")

// slowBody is a body that comes in pieces.
type slowBody struct {
	ctx     context.Context
	content io.Reader
	left    int // octets
	piece   int
	leaveAt int // with so many octets left; 0: at the end
	hasLeft bool
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	if b.left < b.leaveAt || !pause(b.ctx, 100*time.Millisecond) {
		b.hasLeft = true
		return 0, errLeft
	}
	n, err := io.ReadFull(b.content, p[:min(len(p), b.piece, b.left)])
	b.left -= n
	return n, err
}

func (b *slowBody) Close() error { return nil }

// sendGarbage sends what no protocol has.
func (c *client) sendGarbage(_ context.Context, door doorKind, o *origin) {
	conn, err := c.dial(door, o)
	if err != nil {
		return
	}
	defer conn.Close()
	garbage := make([]byte, 1+c.random.IntN(2000))
	for i := range garbage {
		garbage[i] = byte(c.random.Uint32())
	}
	openings := []string{"", "GET ", "GET http://" + o.address + "/\r\n", "CONNECT " + o.address + " HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "\x05\x01\x00\x05\x01\x00\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}
	conn.Write(append([]byte(openings[c.random.IntN(len(openings))]), garbage...))
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	io.CopyN(io.Discard, conn, 64<<10)
}

// smuggle sends requests of whose ends two readers could think differently, with one for a
// page that is disallowed behind them. The origins notice if it comes to them.
func (c *client) smuggle(_ context.Context, door doorKind, o *origin) {
	o.mu.Lock()
	v := o.now
	o.mu.Unlock()
	const agent = "SoakBot/1.0 (+https://soak.test/bot)"
	var open, shut string
	for range 50 {
		if path := randomPath(c.random); v.allows(agent, path) {
			open = path
		} else {
			shut = path
		}
	}
	if open == "" || shut == "" {
		return
	}
	s, err := c.open(door, o)
	if err != nil {
		return
	}
	defer s.close()
	if s.http2 != nil {
		return // where requests have an end of their own
	}
	target := open
	if s.absolute {
		target = o.url(open)
	}
	inner := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nSoak-Smuggled: 1\r\n\r\n", shut, o.address, agent)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", target, o.address, agent)
	tricks := []string{
		head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", 5+len(inner), inner),
		head + fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
		head + fmt.Sprintf("Transfer-Encoding: xchunked\r\nContent-Length: %d\r\n\r\n%s", len(inner), inner),
		head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + inner,
		head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x;a=\n\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		head + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(inner), inner),
		head + fmt.Sprintf("X: a\r\n Content-Length: %d\r\n\r\n%s", len(inner), inner),
		head + "X: a\nContent-Length: 0\n\n" + inner,
		strings.Replace(head, " HTTP/1.1", " HTTP/1.1\r\nX: "+strings.TrimSpace(inner)+" HTTP/1.1", 1) + "\r\n",
	}
	io.WriteString(s.conn, tricks[c.random.IntN(len(tricks))])
	s.conn.SetDeadline(time.Now().Add(2 * time.Second))
	io.CopyN(io.Discard, s.reader, 64<<10)
}
