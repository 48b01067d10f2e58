package proxy

import (
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdlestConnectionIsClosedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newClients()
		conns := map[string]*countedConn{}
		var closed []string
		for _, name := range []string{"busy", "a", "b", "c"} {
			near, far := net.Pipe()
			defer far.Close()
			conn := &countedConn{Conn: near}
			conn.closed = func() {
				all.remove(conn)
				closed = append(closed, name)
			}
			conns[name] = conn
			all.add(conn)
		}
		for _, step := range []struct {
			name string
			idle bool
		}{{"a", true}, {"b", true}, {"c", true}, {"a", false}, {"b", false}, {"b", true}, {"a", true}} {
			time.Sleep(time.Second)
			all.idles(conns[step.name], step.idle)
		}
		for range 5 {
			all.closeIdlest()
		}
		if got := len(closed); got != 3 || closed[0] != "c" || closed[1] != "b" || closed[2] != "a" {
			t.Errorf("closed in the order %q", closed)
		}
		conns["busy"].Conn.Close()
	})
}

func TestPlacesTellOnceThatTheyAreTaken(t *testing.T) {
	var told []bool
	p := &places{max: 4, reached: func(_ int64, first bool) { told = append(told, first) }}
	for range 6 {
		p.take()
	}
	p.leave()
	for range 2 {
		p.take()
	}
	for range 2 {
		p.leave() // half of them are free
	}
	for range 3 {
		p.take()
	}
	if want := []bool{true, false, false, true}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	if n := p.taken.Load(); n != 4 {
		t.Errorf("%d are taken", n)
	}
}

// Those who take a place as soon as there is one never are more than there are places,
// and none of them is forgotten.
func TestWaitingForPlaces(t *testing.T) {
	const max, many = 3, 100
	p := &places{max: max}
	var now atomic.Int64
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if !p.wait(nil) || now.Add(1) > max {
				t.Error("no place, or one too many")
			}
			runtime.Gosched()
			now.Add(-1)
			p.leave()
		})
	}
	all.Wait()
	ended := make(chan struct{})
	for range max {
		p.take()
	}
	close(ended)
	if p.wait(ended) {
		t.Error("a place that there was not")
	}
}
