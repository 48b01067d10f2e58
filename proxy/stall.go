package proxy

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"robotsproxy/proxy/answer"
)

// flow is what moves both ways in an exchange, a tunnel or a WebSocket.
type flow struct{ up, down direction }

// direction counts the steps of what moves one way. The count is odd while what has come
// from one side waits for the other to take it.
type direction struct{ steps atomic.Uint32 }

// comes says that something has come, and is handed on from now.
func (d *direction) comes() { d.steps.Store((d.steps.Load() + 2) | 1) }

// taken says that all that has come is handed on.
func (d *direction) taken() { d.steps.Store((d.steps.Load() + 2) &^ 1) }

// stall says in what way a flow stands still.
type stall int

const (
	moves    stall = iota
	silent         // neither side has sent anything
	upHeld         // the origin takes nothing of what the client sends
	downHeld       // the client takes nothing of what the origin sends
)

// looksPerLimit is how often a watch looks in the time that nothing may move: a flow is
// broken off at most a quarter of that time too late.
const looksPerLimit = 4

// watch breaks a flow off that stands still: where neither side sends anything, and where
// one takes nothing of what the other sends. That one side sends nothing is no fault while
// the other does.
//
// It looks at the flow's counters now and then, so that what moves costs no more than
// counting. Its zero value watches nothing.
type watch struct {
	flow
	limit   time.Duration
	broken  breakable
	timer   *time.Timer
	mayIdle bool // silence is no fault

	seen  [2]uint32 // the counts at the last look
	looks [2]int    // how many looks have found them so

	// paused holds while another limit is on what is waited for.
	paused atomic.Bool

	mu   sync.Mutex
	over bool  // stop has been called, or the flow is broken off
	how  stall // why it is
}

// breakable is what a watch breaks off.
type breakable interface {
	// breakOff ends what stands still, without waiting for it.
	breakOff(how stall)
}

// start begins to watch, if that has not begun. The flow is broken off once at most, and
// not after stop. No limit watches nothing.
func (w *watch) start(limit time.Duration, b breakable) {
	if limit <= 0 || w.timer != nil {
		return
	}
	w.limit, w.broken = limit, b
	w.mu.Lock() // look waits until the timer is there
	defer w.mu.Unlock()
	if !w.over {
		w.timer = time.AfterFunc(limit/looksPerLimit, w.look)
	}
}

// stop ends the watch for good, and waits while the flow is being broken off. It says
// whether it has been, and why.
func (w *watch) stop() stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.how
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if w.how = w.judge(); w.how == moves {
		w.timer.Reset(w.limit / looksPerLimit)
		return
	}
	w.over = true
	w.broken.breakOff(w.how)
}

func (w *watch) judge() stall {
	paused := w.paused.Load()
	for i, d := range []*direction{&w.up, &w.down} {
		if now := d.steps.Load(); now != w.seen[i] || paused {
			w.seen[i], w.looks[i] = now, 0
		} else {
			w.looks[i]++
		}
	}
	held := func(i int) bool { return w.looks[i] >= looksPerLimit && w.seen[i]%2 == 1 }
	switch {
	case held(1):
		return downHeld
	case held(0):
		return upHeld
	case !w.mayIdle && w.looks[0] >= looksPerLimit && w.looks[1] >= looksPerLimit:
		return silent
	}
	return moves
}

// why says in words how the flow stood still.
func (w *watch) why(how stall) error {
	switch how {
	case upHeld:
		return fmt.Errorf("broken off: the origin took nothing for %v", w.limit)
	case downHeld:
		return fmt.Errorf("broken off: the client took nothing for %v", w.limit)
	case silent:
		return fmt.Errorf("broken off: neither side sent anything for %v", w.limit)
	}
	return nil
}

// watchedConn is a client's end of a WebSocket.
type watchedConn struct {
	net.Conn
	flow *flow
}

func (c watchedConn) Read(p []byte) (int, error) {
	c.flow.up.taken() // else nobody would read on
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.flow.up.comes()
	}
	return n, err
}

func (c watchedConn) Write(p []byte) (int, error) {
	c.flow.down.comes()
	defer c.flow.down.taken()
	return c.Conn.Write(p)
}

// SetStallTimeout bounds how long what begins from now on may stand still; see
// [Limits.StallTimeout].
func (s *Server) SetStallTimeout(limit time.Duration) { s.stallTimeout.Store(int64(limit)) }

func (s *Server) stallLimit() time.Duration { return time.Duration(s.stallTimeout.Load()) }

// breakOff ends an exchange that stands still. While the origin is being asked, the client
// can still be answered; afterwards its response is cut short.
func (x *exchange) breakOff(how stall) {
	defer func() {
		if cause := recover(); cause != nil {
			x.server.panicked(cause)
		}
	}()
	client := http.NewResponseController(x.client.ResponseWriter)
	asking := x.asking.Load()
	if how != upHeld || !asking {
		client.SetReadDeadline(pastDeadline)
	}
	if !asking {
		client.SetWriteDeadline(pastDeadline)
	}
	switch {
	case x.cancel != nil:
		x.cancel()
	case x.upstream != nil:
		go x.upstream.Close() // it may wait for what stands still
	}
}

// pastDeadline is a deadline that is over.
var pastDeadline = time.Unix(1, 0)

// stalled answers a request that stood still while the origin was being asked.
func (s *Server) stalled(how stall, limit time.Duration) answer.Answer {
	if how == upHeld {
		kind := "connection_write_timeout"
		s.failures.WithLabelValues(kind).Inc()
		return answer.Answer{
			Status:  http.StatusGatewayTimeout,
			Kind:    kind,
			Details: fmt.Sprintf("the origin took nothing of the request's body for %v", limit),
		}
	}
	return answer.BadRequest(http.StatusRequestTimeout, fmt.Sprintf("nothing of the request's body came for %v", limit))
}

// tunnelEnds are the two connections of a tunnel that is not read.
type tunnelEnds struct{ client, up net.Conn }

func (e tunnelEnds) breakOff(stall) {
	e.client.Close()
	e.up.Close()
}
