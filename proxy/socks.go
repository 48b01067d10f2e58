package proxy

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"robotsproxy/internal/hostname"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/socks"
)

// ServeSOCKS accepts clients that speak SOCKS 5 (RFC 1928) from l, and serves them until
// Shutdown is called. It closes l. It may be called several times at once, beside Serve. It
// returns nil after Shutdown, else the error that ended it.
//
// Of the commands only CONNECT is served. What it opens is a tunnel as an HTTP CONNECT opens
// it, judged as a whole or request by request, if the client names a host. Most clients that
// send an address have looked up a name themselves, which shows only inside: such a
// connection is served by its first octets, as [Server.ServeTransparent] describes.
//
// A client's user is its name by RFC 1929. If there is a file of users, every client must
// be one of them; else any is believed.
func (s *Server) ServeSOCKS(l net.Listener) error {
	return s.acceptTunnels(l, decision.SOCKS, s.serveSOCKS)
}

func (s *Server) serveSOCKS(t *tunnel) {
	host, port, err := s.askSOCKS(t)
	if err != nil {
		s.refuseSOCKS(t, err)
		return
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		if s.replySOCKS(t, socks.Succeeded) {
			s.serveAddress(t, netip.AddrPortFrom(addr.Unmap(), port), false)
		}
		return
	}
	if host, err = hostname.Normal(host); err == nil {
		t.origin, err = originOf("https", host, port)
	}
	if err != nil {
		s.log.Debug().Err(err).Stringer("client", t.RemoteAddr()).Msg("SOCKS names no host")
		s.refuseSOCKS(t, socks.Failed)
		return
	}
	t.origin = presumed(t.origin)
	if s.open(t, s.opaque(t, t.asker()), overSOCKS{accepted{s, t}}) {
		s.serveTunnel(t)
	}
}

// overSOCKS is the caller that has asked for a tunnel by SOCKS.
type overSOCKS struct{ accepted }

func (c overSOCKS) opened() bool {
	return c.accepted.opened() && c.replySOCKS(c.tunnel, socks.Succeeded)
}

func (c overSOCKS) refused(why *answer.Answer, cause error) bool {
	c.refuseSOCKS(c.tunnel, replyFor(why, cause))
	return true
}

// errPassword says that a client has been told that it states no user with the right password.
var errPassword = errors.New("the client is none of the users in clients.htpasswd, or its password is wrong")

// askSOCKS has a client say who it is and where it wants to go. A client that may not use the
// proxy is told when it has said so, without its password being checked.
func (s *Server) askSOCKS(t *tunnel) (host string, port uint16, err error) {
	known, turnedAway := s.settings.Load().users, s.turnsAway(t)
	credentials, err := socks.Negotiate(t, known != nil && !turnedAway)
	if err != nil {
		return "", 0, err
	}
	if credentials.Sent {
		right := turnedAway || known.KnowPassword(s.broken, t.client(), credentials.User, credentials.Password)
		s.limitOpening(t)
		if err := socks.AnswerCredentials(t, right); err != nil {
			return "", 0, err
		}
		if !right {
			return "", 0, errPassword
		}
		t.user = credentials.User
	}
	host, port, err = socks.ReadRequest(t)
	if turnedAway && err == nil {
		err = socks.NotAllowed
	}
	return host, port, err
}

// refuseSOCKS closes the connection of a client that is not served. It first tells the client
// why, if that waits for a reply.
func (s *Server) refuseSOCKS(t *tunnel, cause error) {
	defer t.Close()
	line := s.log.Debug()
	if errors.Is(cause, socks.ErrVersion) || errors.Is(cause, socks.ErrNoMethod) {
		line = s.log.Info()
	}
	line.Err(cause).Stringer("client", t.RemoteAddr()).Msg("SOCKS connection closed")
	if reply, ok := errors.AsType[socks.Reply](cause); ok {
		reply.Send(t)
		t.CloseWrite() // so that the reply is read before the connection is gone
	}
}

// replySOCKS sends a reply, from which on the connection is a tunnel. It reports false if
// the client has left.
func (s *Server) replySOCKS(t *tunnel, reply socks.Reply) bool {
	s.limitOpening(t)
	if err := reply.Send(t); err != nil {
		t.Close()
		return false
	}
	return true
}

// replyFor is the reply to a client to whose CONNECT the answer would be a. err is why.
func replyFor(a *answer.Answer, err error) socks.Reply {
	switch a.Kind {
	case "http_request_denied", "destination_ip_prohibited", "proxy_loop_detected":
		return socks.NotAllowed
	case "dns_error", "destination_ip_unroutable", "connection_timeout":
		return socks.HostUnreachable
	case "connection_refused":
		return socks.ConnectionRefused
	}
	if errors.Is(err, syscall.ENETUNREACH) {
		return socks.NetworkUnreachable
	}
	return socks.Failed
}
