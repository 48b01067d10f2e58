package main

import (
	"context"
	"crypto/x509"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A client visits origins by all doors of the proxies, and often misbehaves.
type client struct {
	random  *rand.Rand
	roots   *x509.CertPool
	checker *checker
	proxies []*proxy
	origins []*origin

	proxy *proxy // of this visit
}

// manners are how clients visit, each with how many visits of a hundred are so.
var manners = []struct {
	name  string
	share int
	visit func(*client, context.Context, doorKind, *origin)
}{
	{"polite", 70, (*client).behave},
	{"leaves early", 10, (*client).leaveEarly},
	{"never reads", 5, (*client).neverRead},
	{"slow body", 5, (*client).sendSlowly},
	{"garbage", 5, (*client).sendGarbage},
	{"smuggling", 5, (*client).smuggle},
}

// run visits until ctx ends.
func (c *client) run(ctx context.Context) {
	for pause(ctx, time.Duration(c.random.IntN(150))*time.Millisecond) {
		c.proxy = c.proxies[c.random.IntN(len(c.proxies))]
		doors := slices.Sorted(maps.Keys(c.proxy.doors))
		door := doors[c.random.IntN(len(doors))]
		o := c.origins[c.random.IntN(len(c.origins))]
		draw := c.random.IntN(100)
		if o.ftp { // which takes no tunnels, and nothing but GET
			door, draw = []doorKind{plainDoor, tlsDoor}[c.random.IntN(2)], c.random.IntN(85)
			c.checker.count("visits to FTP servers", 1)
		}
		for _, m := range manners {
			if draw -= m.share; draw < 0 {
				c.checker.count("visits: "+m.name, 1)
				m.visit(c, ctx, door, o)
				break
			}
		}
	}
}

// exchange begins an exchange for a random page.
func (c *client) exchange(door doorKind, o *origin, method string) *exchange {
	agent := slices.Sorted(maps.Keys(agents))[c.random.IntN(len(agents))]
	if o.ftp {
		agent, method = ftpAgent, http.MethodGet
	}
	return c.checker.begin(exchange{origin: o, path: randomPath(c.random), agent: agent, method: method, door: string(door) + " of " + c.proxy.name, proxy: c.proxy})
}

// behave asks for some pages, and reads them.
func (c *client) behave(_ context.Context, door doorKind, o *origin) {
	methods := []string{http.MethodGet, http.MethodGet, http.MethodGet, http.MethodHead, http.MethodPost}
	first := c.exchange(door, o, methods[c.random.IntN(len(methods))])
	c.checker.count("door: "+string(door), 1)
	s, err := c.open(door, o)
	if err != nil {
		c.checker.end(first, outcome{err: err})
		return
	}
	defer s.close()
	if s.http2 != nil { // all at once
		c.checker.count("sessions over HTTP/2", 1)
		var streams sync.WaitGroup
		for i := range 1 + c.random.IntN(4) {
			x := first
			if i > 0 {
				x = c.exchange(door, o, methods[c.random.IntN(len(methods))]).after(first)
			}
			streams.Go(func() { c.fetch(s, x) })
		}
		streams.Wait()
		return
	}
	again := c.fetch(s, first)
	for range c.random.IntN(4) {
		if !again {
			return
		}
		again = c.fetch(s, c.exchange(door, o, methods[c.random.IntN(len(methods))]).after(first))
	}
}

// fetch makes one exchange. It reports whether the session may go on.
func (c *client) fetch(s *session, x *exchange) bool {
	var body io.ReadCloser
	length := int64(0)
	if x.method == http.MethodPost {
		body, length = io.NopCloser(io.LimitReader(x.page.uploaded(), int64(x.page.upload))), int64(x.page.upload)
		if x.page.framed { // the request's body goes the other way
			length = -1
		}
	}
	r, err := x.request(body, length)
	if err != nil {
		c.checker.end(x, outcome{err: err})
		return false
	}
	resp, err := s.send(r)
	if err != nil {
		c.checker.end(x, outcome{err: err})
		return false
	}
	defer s.leave(resp)
	got := receive(resp, x)
	if got.complete || x.page.fault != endless || got.octets < enough {
		c.checker.end(x, got)
		return got.complete && !resp.Close
	}
	c.checker.abandon(x, "has enough of an endless body")
	return false
}

// enough is how much of a body a client takes, in octets.
const enough = 2 * maxPage

// receive reads a response and compares its body with the page's.
func receive(resp *http.Response, x *exchange) outcome {
	got := outcome{status: resp.StatusCode, header: resp.Header}
	compared := compareWith(x.page.body())
	var text head
	n, err := io.Copy(io.MultiWriter(compared, &text), io.LimitReader(resp.Body, enough))
	got.octets, got.differs, got.text, got.err = int(n), compared.differs, text, err
	got.complete = err == nil && n < enough
	return got
}

// head is a writer that keeps the beginning.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	*h = append(*h, p[:min(len(p), 4096-len(*h))]...)
	return len(p), nil
}
