package proxy

import (
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// early passes 1xx responses on until the final one is there.
type early struct {
	mu   sync.Mutex // the transport may still call when the final response is there
	to   http.ResponseWriter
	over bool
}

// passEarly readies w for the response to r: 1xx responses, and a response that
// begins before the request has ended.
func (w *responseWriter) passEarly(r *http.Request) *early {
	// Else HTTP/1.1 would read away what is left of the request's body as soon as
	// the response begins, while the transport reads it too.
	http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
	return &early{to: w, over: !r.ProtoAtLeast(1, 1)} // RFC 9110 15.2: no 1xx to HTTP/1.0
}

func (e *early) watch(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: e.pass}))
}

func (e *early) pass(status int, header textproto.MIMEHeader) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || status == http.StatusContinue { // which net/http says by itself when the body is wanted
		return nil
	}
	h := e.to.Header()
	maps.Copy(h, http.Header(header))
	stripHopByHop(h, false)
	e.to.WriteHeader(status)
	clear(h)
	return nil
}

func (e *early) end() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
}
