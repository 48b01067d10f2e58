package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// judge judges a tunnel as a whole, again and again while it lasts. It gives nil for
// one that must be read.
type judge func(ctx context.Context, ask gate.Ask) (*gate.Passage, error)

// unreadJudge says who judges a tunnel to an origin that may not be read; nil for
// one that is read in any case.
func (s *Server) unreadJudge(origin robots.Origin) judge {
	tunnels := s.entry.Load().tunnels
	never := tunnels.Mode == Never ||
		slices.ContainsFunc(tunnels.Passthrough, func(g identity.HostGlob) bool { return g.Match(origin.Host) })
	switch {
	case never:
		mixed := gate.Disallowed
		if tunnels.Mixed == AllowMixed {
			mixed = gate.Allowed
		}
		return func(ctx context.Context, ask gate.Ask) (*gate.Passage, error) {
			return s.gate.AdmitTunnel(ctx, ask, mixed)
		}
	case tunnels.Mode == WhenNeeded:
		return s.gate.AdmitUnread
	}
	return nil
}

// passUnread judges a CONNECT and, if it may pass, joins client and origin. It
// reports false, and has done nothing, where the tunnel must be read.
func (s *Server) passUnread(w http.ResponseWriter, r *http.Request, origin robots.Origin, judge judge) bool {
	if passedBy(r.Header, s.opts.Name) {
		s.answer(w, r, s.loop())
		return true
	}
	ask := gate.Ask{Target: robots.Target{Origin: origin, Path: "/"}, Asker: askerOf(r), Method: r.Method}
	passage, err := judge(r.Context(), ask)
	switch {
	case err != nil: // the client has left, or the proxy is being stopped
		s.answer(w, r, answer{status: http.StatusServiceUnavailable, kind: "proxy_internal_error", details: err.Error()})
		return true
	case passage == nil:
		return false
	}
	if err := passage.Wait(r.Context()); err != nil { // the client has left
		passage.Done(0, 0, err)
		return true
	}
	if !passage.Admits() {
		a, err := s.refuse(r, passage)
		s.answer(w, r, a)
		passage.Done(a.status, 0, err)
		return true
	}
	up, err := s.transport.Dial(r.Context(), origin)
	if err != nil {
		a := s.failed(err)
		s.answer(w, r, a)
		passage.Done(a.status, 0, err)
		return true
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		up.Close()
		a := badRequest(http.StatusBadRequest, "this connection cannot become a tunnel")
		s.answer(w, r, a)
		passage.Done(a.status, 0, err)
		return true
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	s.hijacked.add(conn)
	s.open.Inc()
	// net/http's own goroutine and buffers, which it gives up now, are many times what
	// an idle tunnel needs.
	go func() {
		defer s.hijacked.remove(conn)
		defer s.open.Dec()
		s.carry(conn, early, up, passage, judge, ask)
	}()
	return true
}

// carry joins a client, which has said something early, and its origin for as long as
// the tunnel may pass.
func (s *Server) carry(conn net.Conn, early []byte, up net.Conn, passage *gate.Passage, judge judge, ask gate.Ask) {
	defer conn.Close()
	defer up.Close()
	var refused atomic.Bool
	stop := s.judgeAgain(passage, judge, ask, func() {
		refused.Store(true)
		conn.Close()
		up.Close()
	})
	defer stop()
	down := int64(0)
	err := established(conn)
	if err == nil {
		_, err = up.Write(early)
	}
	if err == nil {
		down = join(conn, up)
	}
	if refused.Load() {
		err = errRefusedLater
	}
	passage.Done(http.StatusOK, down, err)
}

var errRefusedLater = errors.New("what the origin allows has changed: the tunnel was closed")

// often is how long a tunnel goes at most without being judged again: what its
// origin allows may change before it expires.
const often = time.Minute

// judgeAgain judges a tunnel again when the policy that let it through is over, and
// now and then before. It calls end once, when the tunnel may no longer pass or
// would have to be read. The caller ends it by stop.
func (s *Server) judgeAgain(first *gate.Passage, judge judge, ask gate.Ask, end func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var timer *time.Timer
	next := func(p *gate.Passage) time.Duration {
		if p.ExpiresAt.IsZero() {
			return often
		}
		return min(max(time.Until(p.ExpiresAt), 50*time.Millisecond), often)
	}
	ready := make(chan struct{})
	timer = time.AfterFunc(next(first), func() {
		<-ready
		p, err := judge(ctx, ask)
		switch {
		case ctx.Err() != nil:
		case err != nil || p == nil || !p.Admits():
			end()
		default:
			timer.Reset(next(p))
		}
	})
	close(ready)
	return func() {
		cancel()
		timer.Stop()
	}
}

// join copies both ways until both have ended, and returns how many octets came
// down. An end of one direction is passed on; the other goes on.
func join(client, up net.Conn) (down int64) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		relay(up, client)
		if closeWrite(up) != nil {
			up.Close()
		}
	}()
	down = relay(client, up)
	if closeWrite(client) != nil {
		client.Close()
	}
	<-done
	return down
}

// relay copies with as little memory as an idle tunnel shall cost, and with more
// only while much is coming.
func relay(to io.Writer, from io.Reader) (total int64) {
	small := make([]byte, 2<<10)
	for {
		n, err := from.Read(small)
		if n > 0 {
			if _, err := to.Write(small[:n]); err != nil {
				return total
			}
			total += int64(n)
		}
		if err == nil && n == len(small) {
			var more int64
			more, err = relayMuch(to, from)
			total += more
		}
		if err != nil {
			return total
		}
	}
}

// relayMuch copies by a pooled buffer until less is coming.
func relayMuch(to io.Writer, from io.Reader) (total int64, err error) {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for n := len(buf); n > len(buf)/4; {
		n, err = from.Read(buf[:])
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
