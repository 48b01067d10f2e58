package conns

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/internal/slots"
)

func TestIdlestConnectionIsClosedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := New(Options{Descriptors: new(slots.Slots)}, zerolog.Nop(), nil)
		conns := map[string]*conn{}
		var closed []string
		for _, name := range []string{"busy", "a", "b", "c"} {
			near, far := net.Pipe()
			defer far.Close()
			c := &conn{Conn: near}
			c.closed = func() {
				all.remove(c)
				closed = append(closed, name)
			}
			conns[name] = c
			all.add(c)
		}
		for _, step := range []struct {
			name string
			idle bool
		}{{"a", true}, {"b", true}, {"c", true}, {"a", false}, {"b", false}, {"b", true}, {"a", true}} {
			time.Sleep(time.Second)
			all.noteIdle(conns[step.name], step.idle)
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
