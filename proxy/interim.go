package proxy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// early passes 1xx responses on until the final one is there.
type early struct {
	to    http.ResponseWriter
	proxy string // the name of this one
	trace httptrace.ClientTrace

	mu   sync.Mutex // the transport may still call when the final response is there
	over bool
}

// watch is the context for a request whose 1xx responses go to w, which answers r, by
// the proxy of that name.
func (e *early) watch(ctx context.Context, w http.ResponseWriter, r *http.Request, proxy string) context.Context {
	e.to, e.proxy, e.over = w, proxy, !r.ProtoAtLeast(1, 1) // RFC 9110 15.2: no 1xx to HTTP/1.0
	e.trace.Got1xxResponse = e.pass
	return httptrace.WithClientTrace(ctx, &e.trace)
}

// pass is called by a goroutine of the transport's, which a panic would end together
// with the process.
func (e *early) pass(status int, header textproto.MIMEHeader) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("passing on a response with the status %d: %v", status, cause)
		}
	}()
	if e.over || status == http.StatusContinue { // which net/http says by itself when the body is wanted
		return nil
	}
	h := e.to.Header()
	maps.Copy(h, http.Header(header))
	stripResponse(h, e.proxy, false)
	e.to.WriteHeader(status)
	clear(h)
	return nil
}

func (e *early) end() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
}
