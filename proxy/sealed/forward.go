package sealed

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/flow"
)

// acceptPause is the wait after a fault of this machine, such as too many open files.
const acceptPause = 100 * time.Millisecond

// forward joins each connection from l with one to address, until ctx ends. It closes l, and
// returns when all connections have ended.
func forward(ctx context.Context, l net.Listener, address string, log zerolog.Logger) {
	var joins sync.WaitGroup
	defer joins.Wait()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			joins.Go(func() {
				defer conn.Close()
				defer func() {
					if cause := recover(); cause != nil {
						log.Error().Interface("panic", cause).Msg("a forwarded connection was given up")
					}
				}()
				if err := join(ctx, conn, address); err != nil {
					log.Warn().Err(err).Msg("a forwarded port could not be reached")
				}
			})
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
		}
	}
}

// join carries octets between a connection and a new one to address. There is no limit to
// how long they may be still, as there is none without a proxy between them.
func join(ctx context.Context, conn net.Conn, address string) error {
	target, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetLinger(0) // the client sees an error, and not an empty answer
		}
		return err
	}
	defer target.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); target.Close() })()
	flow.Join(conn, target, new(flow.Flow))
	return nil
}
