package proxy

import (
	"net"
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
