package forward

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

// newEngine returns goproxy, through which every door's requests go. It calls admit
// for each, and ask for those that admit lets pass. No other file knows goproxy. This is
// what it works around, and why:
//
//   - CONNECT never gets here. goproxy would lose a ClientHello that comes in one packet
//     with the CONNECT, has no timeouts, and lets a panic inside a tunnel end the process.
//     Our doors end the tunnels, and each request inside comes here by itself.
//   - Its own transport reads HTTP_PROXY, which in a sidecar names this proxy. Each request
//     has a RoundTripper of ours, and goproxy's transport dials nobody.
//   - It would remove Accept-Encoding, and hop-by-hop fields in its own way. KeepHeader and
//     KeepAcceptEncoding stop it; admit removes what must not be passed on.
//   - It would copy a response's header value by value. So askForGoproxy fills the client's
//     header and returns a response without one (KeepDestinationHeaders).
//   - With an OnResponse handler it drops Content-Length, and passes nil for a request that
//     failed. There is none: ask never fails, and its response is ready for the client.
//   - It ignores errors of copying a body, so a body that is cut short would end as if it
//     were whole, and it leaves hijacked connections open. conclude takes care of both.
func (f *Forwarder) newEngine() http.Handler {
	p := goproxy.NewProxyHttpServer()
	p.Logger = goproxyLog{f.log}
	p.Tr = &http.Transport{DialContext: dialNobody}
	p.ConnectDial = nil
	p.KeepAcceptEncoding = true
	p.KeepHeader = true
	p.KeepDestinationHeaders = true
	ask := goproxy.RoundTripperFunc(f.askForGoproxy)
	p.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = ask
		return r, f.admit(r, exchangeOf(r))
	})
	return p
}

// askForGoproxy is ask as a goproxy.RoundTripper.
func (f *Forwarder) askForGoproxy(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x := exchangeOf(r)
	resp := f.ask(r, x)
	if resp.StatusCode != http.StatusSwitchingProtocols { // goproxy reads this header
		maps.Copy(x.client.Header(), resp.Header)
		resp.Header = nil
	}
	return resp, nil
}

func dialNobody(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("requests do not go by goproxy's own transport")
}

// goproxyLog logs what goproxy warns of: mostly the ends of WebSockets.
type goproxyLog struct{ log zerolog.Logger }

func (l goproxyLog) Printf(format string, v ...any) {
	l.log.Debug().Msgf(strings.TrimSpace(format), v...)
}
