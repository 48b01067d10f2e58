package flow

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Join carries octets between a client and an origin until both directions have ended, and
// returns how many came down. When one direction ends, it closes that direction at the
// other side, and the other direction goes on. It leaves both connections open, unless it
// can't close one direction alone.
func Join(client, origin net.Conn, f *Flow) (down int64) {
	done := make(chan struct{})
	var cause any // of a panic
	go func() {
		defer close(done)
		defer func() {
			if cause = recover(); cause != nil {
				client.Close()
				origin.Close()
			}
		}()
		carry(origin, client, &f.Up)
		if CloseWrite(origin) != nil {
			origin.Close()
		}
	}()
	down = carry(client, origin, &f.Down)
	if CloseWrite(client) != nil {
		client.Close()
	}
	<-done
	if cause != nil {
		panic(cause) // in the caller's goroutine, which can recover
	}
	return down
}

// CloseWrite tells the other side of a connection that nothing more comes. It returns
// [errors.ErrUnsupported] if the connection can't be closed one way.
func CloseWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

const (
	// idleBuffer is the size of the buffer that a direction keeps while little comes.
	idleBuffer = 2 << 10
	// busyBuffer is the size of the buffer that it borrows while much comes.
	busyBuffer = 32 << 10
)

var busyBuffers = sync.Pool{New: func() any { return new([busyBuffer]byte) }}

// carry copies until from ends or to fails. It needs little memory while a tunnel is idle,
// and borrows more only while much comes.
func carry(to io.Writer, from io.Reader, d *Direction) (total int64) {
	small := make([]byte, idleBuffer)
	for {
		n, err := from.Read(small)
		if n > 0 {
			if err := deliver(to, small[:n], d); err != nil {
				return total
			}
			total += int64(n)
		}
		if err == nil && n == len(small) {
			var more int64
			more, err = carryMuch(to, from, d)
			total += more
		}
		if err != nil {
			return total
		}
	}
}

// carryMuch copies through a pooled buffer until less comes.
func carryMuch(to io.Writer, from io.Reader, d *Direction) (total int64, err error) {
	buf := busyBuffers.Get().(*[busyBuffer]byte)
	defer busyBuffers.Put(buf)
	for n := len(buf); n > len(buf)/4; {
		n, err = from.Read(buf[:])
		if n > 0 {
			if err := deliver(to, buf[:n], d); err != nil {
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

func deliver(to io.Writer, piece []byte, d *Direction) error {
	d.Received()
	defer d.Delivered()
	_, err := to.Write(piece)
	return err
}
