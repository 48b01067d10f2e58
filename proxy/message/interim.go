package message

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// Interim relays an origin's interim responses (1xx) to the client until the final one is
// there.
type Interim struct {
	to    http.ResponseWriter
	proxy string
	trace httptrace.ClientTrace

	mu   sync.Mutex // the transport may still call when the final response is there
	over bool
}

// Relay returns a context for the request to the origin: interim responses to it go to w,
// which answers r, from the proxy that is called name. wroteRequest is called when the
// request has been written; it may be nil. Callers must call End.
func (i *Interim) Relay(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, wroteRequest func(httptrace.WroteRequestInfo)) context.Context {
	i.to, i.proxy = w, name
	i.over = !r.ProtoAtLeast(1, 1) // RFC 9110 15.2: no 1xx to HTTP/1.0
	i.trace.Got1xxResponse, i.trace.WroteRequest = i.pass, wroteRequest
	return httptrace.WithClientTrace(ctx, &i.trace)
}

// pass is called in a goroutine of the transport, where a panic would end the process.
func (i *Interim) pass(status int, header textproto.MIMEHeader) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("relaying a response with the status %d: %v", status, cause)
		}
	}()
	if i.over || status == http.StatusContinue { // net/http sends 100 when the body is wanted
		return nil
	}
	h := i.to.Header()
	maps.Copy(h, http.Header(header))
	StripResponse(h, i.proxy, false)
	i.to.WriteHeader(status)
	clear(h)
	return nil
}

// End relays nothing from now on.
func (i *Interim) End() {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
}
