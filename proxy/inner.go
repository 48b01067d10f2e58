package proxy

import (
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"robotsproxy/proxy/answer"
	"robotsproxy/robots"
)

// serveInner handles the requests inside tunnels.
func (s *Server) serveInner(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*tunnel)
	switch {
	case r.Method == http.MethodConnect:
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "CONNECT inside a tunnel"))
		return
	case !httpguts.ValidHeaderFieldName(r.Method): // HTTP/2 allows any text
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, "the method is no token"))
		return
	case r.RequestURI == "*":
		s.asterisk(w, r)
		return
	}
	target, named, err := t.target(r)
	switch {
	case err != nil:
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusBadRequest, err.Error()))
	case named != t.origin:
		s.forwarder.Answer(w, r, answer.BadRequest(http.StatusMisdirectedRequest, "the request is for "+named.String()+", the tunnel leads to "+t.origin.String()))
	default:
		s.forwarder.Forward(w, r, t.door, target, t.user)
	}
}

// target is what a request in the tunnel asks for. named is the first origin that the
// request names and that is not the tunnel's; if there is none, it is the tunnel's.
func (t *tunnel) target(r *http.Request) (target robots.Target, named robots.Origin, err error) {
	rawURL := r.RequestURI
	if !r.URL.IsAbs() {
		rawURL = t.origin.String() + r.RequestURI
	}
	if target, err = robots.ParseTarget(rawURL); err != nil {
		return target, named, err
	}
	named = target.Origin
	// HTTP/1.0 may have no Host; HTTP/2 may have one besides :authority.
	for _, host := range slices.Concat(r.Header["Host"], []string{r.Host}) {
		if host == "" || host == t.authority || named != t.origin || r.ProtoMajor == 1 && r.URL.IsAbs() {
			continue
		}
		if named, err = robots.ParseOrigin(t.origin.Scheme + "://" + host); err != nil {
			break
		}
	}
	return target, named, err
}
