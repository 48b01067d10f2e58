//go:build unix

package redistest

import (
	"net"
	"sync"
	"time"
)

// Delay returns the address of a relay to the server, over which a round trip takes so long. It
// ends with the test.
func (s *Server) Delay(roundTrip time.Duration) string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var relays sync.WaitGroup
	s.t.Cleanup(func() {
		l.Close()
		relays.Wait()
	})
	relays.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			relays.Go(func() {
				defer near.Close()
				far, err := net.Dial("tcp", s.Address)
				if err != nil {
					return
				}
				defer far.Close()
				var both sync.WaitGroup
				both.Go(func() { copyLate(far, near, roundTrip/2) })
				both.Go(func() { copyLate(near, far, roundTrip/2) })
				both.Wait()
			})
		}
	})
	return l.Addr().String()
}

// copyLate copies what comes, each piece so long after it came, and then ends the other side.
func copyLate(to, from net.Conn, delay time.Duration) {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 1000)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			pieces <- piece{data[:n], time.Now().Add(delay)}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		to.Write(p.data)
	}
	to.Close()
}
