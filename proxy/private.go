package proxy

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"robotsproxy/internal/loopback"
)

type refusedKey struct{}

// withClient is ctx for the requests of a connection, whose client is judged at the
// first of them.
func (s *Server) withClient(ctx context.Context, conn net.Conn) context.Context {
	ctx = loopback.WithPeer(ctx, conn)
	admit := s.access.Load().clients.Connections
	if admit == nil {
		return ctx
	}
	return context.WithValue(ctx, refusedKey{}, sync.OnceValue(func() error {
		err := admit(addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr()))
		if err != nil {
			s.logRefused.Do(func() { s.log.Warn().Err(err).Msg("refused a connection; the next ones are not logged") })
		}
		return err
	}))
}

// refused says why the client of a connection may not use the proxy; nil if it may.
func refused(ctx context.Context) error {
	if err, ok := ctx.Value(refusedKey{}).(func() error); ok {
		return err()
	}
	return nil
}

func addrPort(a net.Addr) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(a.String())
	return ap
}
