// Package flow carries octets between a client and an origin, and breaks off what no
// longer moves. A [Flow] counts what moves, [Join] carries it between two connections, and
// a [Watchdog] looks at the counts.
package flow

import (
	"net"
	"sync/atomic"
)

// Flow counts what moves both ways in an exchange, a tunnel or a WebSocket. Up is from the
// client to the origin. The zero value is ready for use.
type Flow struct{ Up, Down Direction }

// Direction counts the steps of what moves one way. The count is odd while octets that one
// side has sent wait for the other to take them. One goroutine at a time may count; others
// may look meanwhile.
type Direction struct{ steps atomic.Uint32 }

// Received notes that octets have come, and are being handed on.
func (d *Direction) Received() { d.steps.Store((d.steps.Load() + 2) | 1) }

// Delivered notes that all octets that have come are handed on.
func (d *Direction) Delivered() { d.steps.Store((d.steps.Load() + 2) &^ 1) }

// Conn is a client's connection that counts in a Flow what is read from it and written
// to it.
type Conn struct {
	net.Conn
	Flow *Flow
}

// Read counts what the client sends as delivered when it is called again.
func (c Conn) Read(p []byte) (int, error) {
	c.Flow.Up.Delivered() // else nobody would read on
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.Flow.Up.Received()
	}
	return n, err
}

func (c Conn) Write(p []byte) (int, error) {
	c.Flow.Down.Received()
	defer c.Flow.Down.Delivered()
	return c.Conn.Write(p)
}
