package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxQueries bounds the queries of one UDP socket that wait for answers. More wait in
	// the kernel, which drops what is too much.
	maxQueries = 256
	// maxConns bounds the TCP connections of one listener. Each has one query at a time.
	maxConns = 64
	// lookupTimeout is longer than resolvers wait, and shorter than their clients.
	lookupTimeout = 10 * time.Second
	// standInTimeout is how long a name may take to resolve before an address stands for it.
	standInTimeout = 2 * time.Second
	// connTimeout is how long a TCP connection may take for a query or be idle.
	connTimeout = 10 * time.Second
	// retryDelay is the wait after a fault of the machine, such as too many open files.
	retryDelay = 100 * time.Millisecond
)

// ServePackets answers queries by UDP until ctx ends or the socket is closed. An answer
// goes out with the control message that came with its query. ServePackets closes the
// socket, and returns when all it has started has ended.
func (s *Server) ServePackets(ctx context.Context, socket *net.UDPConn) {
	var queries sync.WaitGroup
	defer queries.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	defer socket.Close()
	slots := make(chan struct{}, maxQueries)
	packet, control := make([]byte, maxMessage), make([]byte, 128)
	for {
		n, controlN, _, client, err := socket.ReadMsgUDPAddrPort(packet, control)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			pause(ctx) // an ICMP error of an earlier answer, for instance
			continue
		}
		query, from := append([]byte(nil), packet[:n]...), append([]byte(nil), control[:controlN]...)
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		queries.Go(func() {
			defer func() { <-slots }()
			if answer := s.Answer(ctx, "udp", query); answer != nil {
				socket.WriteMsgUDPAddrPort(answer, from, client) // a client that has left misses nothing
			}
		})
	}
}

// ServeConns answers queries by TCP until ctx ends or the listener is closed. It closes
// the listener, and returns when all it has started has ended.
func (s *Server) ServeConns(ctx context.Context, l net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	slots := make(chan struct{}, maxConns)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			<-slots
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			pause(ctx)
			continue
		}
		conns.Go(func() {
			defer func() { <-slots }()
			s.serveConn(ctx, conn)
		})
	}
}

// serveConn answers the queries of one connection, one after the other. Each has its
// length before it (RFC 1035 section 4.2.2).
func (s *Server) serveConn(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	for {
		conn.SetDeadline(time.Now().Add(connTimeout))
		query, err := readMessage(conn)
		if err != nil {
			return
		}
		answer := s.Answer(ctx, "tcp", query)
		if answer == nil {
			return
		}
		conn.SetDeadline(time.Now().Add(connTimeout)) // the answer may have taken long
		if writeMessage(conn, answer) != nil {
			return
		}
	}
}

func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

func writeMessage(w io.Writer, message []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...))
	return err
}

func pause(ctx context.Context) {
	select {
	case <-time.After(retryDelay):
	case <-ctx.Done():
	}
}
