package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots"
)

// caller is a client that has asked a door for a tunnel. Each door has its own way to tell it
// what becomes of the tunnel.
type caller interface {
	// waiting returns a context for what the caller waits for. It ends if the caller is seen
	// to leave. stop must be called before anything reads from the tunnel.
	waiting() (ctx context.Context, stop func())
	// opened tells the caller that its tunnel is open. It reports false if the caller has left.
	opened() bool
	// refused tells the caller why its tunnel is not opened; cause is the error behind it. It
	// reports false if the caller can be told only inside the tunnel, which is then read.
	refused(why *answer.Answer, cause error) (told bool)
}

// opaque returns what may keep t unread; nil if t is read in any case.
func (s *Server) opaque(t *tunnel, asker identity.Asker) *opaque.Tunnel {
	return s.settings.Load().tunnels.Tunnel(s.gate, gate.Ask{
		Target: robots.Target{Origin: t.origin, Path: "/"},
		Asker:  asker,
		Method: http.MethodConnect,
		Door:   t.door,
	})
}

// open opens t for its caller, and reports whether it must be read. If t may stay opaque, as
// o, it is judged as a whole first, and joined to its origin if it passes. The caller is told
// if t is refused or the origin can't be reached.
func (s *Server) open(t *tunnel, o *opaque.Tunnel, c caller) (read bool) {
	if o == nil {
		return c.opened()
	}
	ctx, stop := c.waiting()
	origin, refusal, err := s.reach(ctx, o, t.origin)
	stop()
	switch {
	case errors.Is(err, gate.ErrNotUniform):
		return c.opened()
	case refusal != nil && c.refused(refusal, err):
		notOpened(o, refusal.Status, err)
		return false
	case refusal != nil:
		if o.Admission != nil {
			o.Admission.Discard() // each request inside has one of its own
		}
		return c.opened()
	case err != nil: // the caller has left
		if t.hijacked != nil { // else net/http closes it
			t.Close()
		}
		notOpened(o, 0, err)
		return false
	case !c.opened():
		origin.Close()
		notOpened(o, 0, errNotOpened)
		return false
	}
	return s.pass(t, o, origin)
}

// reach judges a tunnel as a whole and, if it may pass, dials its origin. If not, it returns
// the answer to a CONNECT. An error without an answer is [gate.ErrNotUniform] for a tunnel
// that must be read, else it says that the caller has left.
func (s *Server) reach(ctx context.Context, o *opaque.Tunnel, to robots.Origin) (origin net.Conn, refusal *answer.Answer, err error) {
	failed := func(err error) (net.Conn, *answer.Answer, error) {
		a := s.forwarder.UpstreamFailed(err)
		return nil, &a, err
	}
	if err := upstream.CheckLoopback(ctx, to); err != nil {
		return failed(err)
	}
	switch err := o.Judge(ctx); {
	case errors.Is(err, gate.ErrNotUniform):
		return nil, nil, err
	case err != nil:
		a := s.forwarder.NotJudged(err)
		return nil, &a, err
	}
	if err := o.Admission.Wait(ctx); err != nil {
		return nil, nil, err
	}
	if !o.Admission.Admits() {
		a, err := s.forwarder.Refusal(ctx, o.Admission)
		return nil, &a, err
	}
	if origin, err = s.transport.Dial(ctx, to); err != nil {
		if ctx.Err() == nil && upstream.IsOriginsFault(err) {
			o.Admission.Failed()
		}
		return failed(err)
	}
	o.Admission.Connected()
	return origin, nil, nil
}

// notOpened ends the admission of a tunnel that was not opened, if it was judged.
func notOpened(o *opaque.Tunnel, status int, failure error) {
	if o.Admission != nil {
		o.Admission.Done(status, 0, failure)
	}
}

var errNotOpened = errors.New("the client left before its tunnel was open")

// pass looks at the first octets in a tunnel that has been admitted and opened, and joins
// client and origin or closes both. It reports whether the tunnel must be read.
func (s *Server) pass(t *tunnel, o *opaque.Tunnel, origin net.Conn) (read bool) {
	step, err := o.Next(&t.Conn)
	switch step {
	case opaque.Join:
		if t.encrypted {
			s.log.Info().Stringer("client", t.RemoteAddr()).Str("host", t.origin.Authority()).
				Msg("the client's TLS may name another server, encrypted (ECH): it is judged by the name that can be read")
		}
		s.hijacked.Add(t.hijacked)
		s.clients.NoteNew(t.hijacked, false)
		s.openTunnels.Inc()
		// The goroutine of a CONNECT is net/http's. It and its buffers, which end now,
		// are many times what an idle tunnel needs.
		go func() {
			defer s.recoverTunnel(func() {})
			defer s.hijacked.Remove(t.hijacked)
			defer s.openTunnels.Dec()
			o.Carry(t, origin, s.forwarder.StallTimeout(), err)
		}()
		return false
	case opaque.Read:
		origin.Close()
		o.Admission.Discard()
		return true
	case opaque.Refuse:
		t.alert()
	}
	t.Close()
	origin.Close()
	o.Admission.Done(http.StatusOK, 0, err)
	return false
}

// recoverTunnel is deferred in the goroutines of a tunnel, which net/http does not guard as
// it does its handlers': a panic calls end, and does not end the process.
func (s *Server) recoverTunnel(end func()) {
	if cause := recover(); cause != nil {
		s.log.Error().Any("panic", cause).Bytes("stack", debug.Stack()).Msg("a tunnel failed inside the proxy; please report this")
		end()
	}
}

// accepted is a caller whose connection the Server has accepted itself, not net/http.
type accepted struct {
	*Server
	tunnel *tunnel
}

// waiting has Shutdown wait meanwhile: for a policy, a turn and the origin.
func (a accepted) waiting() (ctx context.Context, stop func()) {
	t := a.tunnel
	a.keep(t)
	ctx, cancel := context.WithCancel(withTunnel(a.broken, t))
	looked := make(chan struct{})
	t.SetDeadline(time.Time{})
	go func() {
		defer close(looked)
		defer a.recoverTunnel(cancel)
		if _, err := t.MayBeTLS(); err != nil {
			cancel()
		}
	}()
	return ctx, func() {
		t.SetReadDeadline(time.Unix(1, 0)) // has passed
		<-looked
		cancel()
		a.limitOpening(t)
	}
}

// opened tells nothing: it is for callers that do not know of the proxy.
func (a accepted) opened() bool {
	a.beginOpening(a.tunnel)
	return true
}
