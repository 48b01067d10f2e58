package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/elazarl/goproxy"
	"github.com/rs/zerolog"
)

// newForwarder returns goproxy, through which every door's requests go. It calls admit
// for each, and ask for those that admit lets pass. This file is the only one that knows
// goproxy. What it works around, and why:
//
//   - CONNECT never gets here. goproxy would lose a ClientHello that comes in one packet
//     with the CONNECT, has no timeouts, and lets a panic inside a tunnel end the process.
//     Our doors take tunnels apart and send what is inside as requests of their own.
//   - Its own transport reads HTTP_PROXY, which in a sidecar names this proxy. Requests go
//     by the RoundTripper set for each; the transport behind it dials nobody.
//   - It would take Accept-Encoding out, and hop-by-hop headers its own way (KeepHeader,
//     KeepAcceptEncoding): admit leaves out what must not be passed on.
//   - It would copy a response's header value by value; ask's response brings none, as the
//     client's has been filled already (KeepDestinationHeaders).
//   - With an OnResponse handler it drops Content-Length and passes nil for a request that
//     failed. There is none: ask never fails, and its response is ready for the client.
//   - It ignores an error of copying a body, so a body that is cut short would end as if it
//     were whole, and it leaves hijacked connections open. [exchange] watches for both.
func (s *Server) newForwarder() http.Handler {
	p := goproxy.NewProxyHttpServer()
	p.Logger = goproxyLog{s.log}
	p.Tr = &http.Transport{DialContext: dialNobody}
	p.ConnectDial = nil
	p.KeepAcceptEncoding = true
	p.KeepHeader = true
	p.KeepDestinationHeaders = true
	ask := goproxy.RoundTripperFunc(s.askForGoproxy)
	p.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = ask
		return r, s.admit(r, exchangeOf(r))
	})
	return p
}

// askForGoproxy is ask in goproxy's form.
func (s *Server) askForGoproxy(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x := exchangeOf(r)
	resp := s.ask(r, x)
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose header goproxy reads
		maps.Copy(x.client.Header(), resp.Header)
		resp.Header = nil
	}
	return resp, nil
}

func dialNobody(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("requests do not go by goproxy's own transport")
}

// goproxyLog takes what goproxy warns of: mostly ends of WebSockets.
type goproxyLog struct{ log zerolog.Logger }

func (l goproxyLog) Printf(format string, v ...any) {
	l.log.Debug().Msgf(strings.TrimSpace(format), v...)
}
