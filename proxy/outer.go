package proxy

import (
	"net/http"
	"net/netip"

	"robotsproxy/proxy/access"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/forward"
	"robotsproxy/proxy/home"
	"robotsproxy/robots"
)

// serveOuter handles what clients send outside of tunnels: absolute-form requests, CONNECT,
// and requests to the proxy itself as a web site.
func (s *Server) serveOuter(w http.ResponseWriter, r *http.Request) {
	client, settings := forward.ClientAddr(r), s.settings.Load()
	switch proxied := r.Method == http.MethodConnect || r.URL.IsAbs(); {
	case s.turnAway(w, r, client, settings):
	case proxied && !settings.users.Know(r.Context(), client, r.Header):
		s.forwarder.Answer(w, r, answer.Answer{
			Status:  http.StatusProxyAuthRequired,
			Kind:    "http_request_denied",
			Details: "this proxy wants a user and a password that it knows",
			Advice:  "Name it as " + home.LocallyAt(r).URLFor("USER:PASSWORD") + " in the client.",
			Header:  http.Header{"Proxy-Authenticate": {`Basic realm="` + s.opts.Name + `", charset="UTF-8"`}},
		})
	case r.Method == http.MethodConnect:
		s.connect(w, r)
	case r.RequestURI == "*":
		s.asterisk(w, r)
	case r.URL.IsAbs():
		target, err := robots.ParseTarget(r.RequestURI)
		user, _, _ := access.Credentials(r.Header)
		switch {
		case err != nil:
			s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
		case target.Origin.Scheme == "ftp":
			s.serveFTP(w, r, target, user)
		default:
			s.forwarder.Forward(w, r, decision.HTTP, target, user)
		}
	default:
		s.home.ServeHTTP(w, r)
	}
}

// turnAway answers a client that may not use the proxy. It reports false for all others.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, client netip.Addr, settings *settings) bool {
	switch {
	case !settings.clients.Admits(client):
		s.forwarder.Answer(w, r, answer.Answer{
			Status:  http.StatusForbidden,
			Kind:    "http_request_denied",
			Details: client.String() + " may not use this proxy",
			Advice:  "Its operator admits clients by their address in clients.allow.",
		})
	case settings.clients.Connections != nil && refused(r.Context()) != nil:
		s.forwarder.Answer(w, r, answer.Answer{
			Status:  http.StatusForbidden,
			Kind:    "http_request_denied",
			Details: refused(r.Context()).Error(),
			Advice:  "Run a proxy of your own with robotsproxy run, or one for all with robotsproxy serve.",
		})
	default:
		return false
	}
	return true
}

// asterisk answers OPTIONS *, which is about the proxy and not about an origin (RFC 9110
// 9.3.7). No other method has that target.
func (s *Server) asterisk(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodOptions {
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "only OPTIONS has the target *"))
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// pageNotFound answers a request to the proxy's own web site.
func (s *Server) pageNotFound(w http.ResponseWriter, r *http.Request) {
	a := answer.BadRequest(http.StatusNotFound, "the proxy "+s.opts.Name+" itself has no such page")
	a.Advice = "To use it as a proxy, name it in the client's http_proxy and https_proxy. What it is, and how: GET /"
	s.forwarder.Answer(w, r, a)
}
