package conns

import (
	"net"
	"sync"
)

// Set is a set of open connections that can be waited for and closed together. The zero
// value is empty. A Set is safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	open  map[net.Conn]struct{}
	empty chan struct{} // closed when the last has gone; nil: nobody waits
}

// Add adds a connection.
func (s *Set) Add(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[net.Conn]struct{}{}
	}
	s.open[conn] = struct{}{}
}

// Remove removes a connection, without closing it. One that is not there is ignored.
func (s *Set) Remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	if len(s.open) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// Len is how many there are.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Drained returns a channel that is closed when no connection is left.
func (s *Set) Drained() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) == 0 {
		drained := make(chan struct{})
		close(drained)
		return drained
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	return s.empty
}

// CloseAll closes the connections that are left. They stay in the set until their owners
// remove them.
func (s *Set) CloseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		conn.Close()
	}
}
