package proxy

import (
	"io"
	"net/http"
	"sync"

	"robotsproxy/proxy/flow"
)

// upload is the body of a request on its way to the origin. The transport reads
// it, and may still do so when the origin has answered. Its nil value is that of
// a request without a body.
type upload struct {
	io.ReadCloser
	request *http.Request
	flow    *flow.Direction

	mu     sync.Mutex
	left   int64 // octets to come; negative if that is not known
	ended  bool
	closed bool  // here
	over   bool  // the transport has had enough
	err    error // of the client's; not that it has been closed here
}

func newUpload(r *http.Request, flow *flow.Direction) *upload {
	return &upload{ReadCloser: r.Body, request: r, flow: flow, left: r.ContentLength}
}

func (u *upload) Read(p []byte) (int, error) {
	u.flow.Delivered() // else nobody would read on
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		u.flow.Received()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.left > 0 {
		u.left -= int64(n)
	}
	if err != nil || u.left == 0 || u.over {
		u.flow.Delivered() // nobody may read on
	}
	switch {
	case err == io.EOF:
		u.ended = true
		for _, name := range hopByHop { // trailers have come
			delete(u.request.Trailer, name)
		}
	case err != nil && !u.closed:
		u.err = err
	}
	return n, err
}

// Close leaves an HTTP/1.1 client's body to net/http, which ends it with the request:
// it waits for what the client has yet to send, and the answer would wait too.
func (u *upload) Close() error {
	ours := u.request.ProtoMajor != 1
	u.mu.Lock()
	u.over, u.closed = true, ours
	u.flow.Delivered()
	u.mu.Unlock()
	if !ours {
		return nil
	}
	return u.ReadCloser.Close()
}

// whole reports whether all of the body has been read.
func (u *upload) whole() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended || u.left == 0
}

// malformed says why the client's body could not be read; nil if it could so far.
func (u *upload) malformed() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// download is the body of a response. It notices where upstream cuts it short, which
// goproxy does not, and strips the trailers that have come with its end.
type download struct {
	io.ReadCloser
	response *http.Response
	proxy    string // the name of this one
	flow     *flow.Direction
	cut      error // why it ended before its end
}

func (d *download) Read(p []byte) (int, error) {
	d.flow.Delivered() // else nobody would read on
	n, err := d.ReadCloser.Read(p)
	if n > 0 {
		d.flow.Received()
	}
	switch {
	case err == io.EOF && len(d.response.Trailer) > 0:
		stripResponse(d.response.Trailer, d.proxy, false)
	case err != nil && err != io.EOF:
		d.cut = err
	}
	return n, err
}
