package message

import (
	"io"
	"net/http"
	"sync"

	"robotsproxy/proxy/flow"
)

// Upload is the body of a request on its way to the origin. The transport reads it, and may
// still do so when the origin has answered. Nil is the Upload of a request without a body.
type Upload struct {
	io.ReadCloser
	request *http.Request
	flow    *flow.Direction

	mu       sync.Mutex
	left     int64 // octets to come; negative if that is not known
	ended    bool
	released bool  // the transport has closed it
	closed   bool  // and so has the Upload its body
	err      error // the client's fault, not that of a closed body
}

// NewUpload returns the body of r, which counts what it reads in a direction.
func NewUpload(r *http.Request, direction *flow.Direction) *Upload {
	return &Upload{ReadCloser: r.Body, request: r, flow: direction, left: r.ContentLength}
}

// Read counts what it returned before as delivered.
func (u *Upload) Read(p []byte) (int, error) {
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
	if err != nil || u.left == 0 || u.released {
		u.flow.Delivered() // nobody may read on
	}
	switch {
	case err == io.EOF:
		u.ended = true
		for _, name := range hopByHop { // the trailers are there now
			delete(u.request.Trailer, name)
		}
	case err != nil && !u.closed:
		u.err = err
	}
	return n, err
}

// Close leaves the body of an HTTP/1.1 request open, which net/http closes at the end of the
// request. To close it means to wait for what the client has yet to send, and the answer
// would wait too.
func (u *Upload) Close() error {
	closes := u.request.ProtoMajor != 1
	u.mu.Lock()
	u.released, u.closed = true, closes
	u.flow.Delivered()
	u.mu.Unlock()
	if !closes {
		return nil
	}
	return u.ReadCloser.Close()
}

// Whole reports whether all of the body has been read.
func (u *Upload) Whole() bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended || u.left == 0
}

// Malformed says why the client's body could not be read; nil if it could so far.
func (u *Upload) Malformed() error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// Download is the body of a response on its way to the client. It notes whether the origin
// cuts it short, and strips the trailers that come with its end.
type Download struct {
	io.ReadCloser
	response *http.Response
	proxy    string
	flow     *flow.Direction
	cut      error
}

// NewDownload returns the body of resp, which counts what it reads in a direction. name is
// the proxy's own name; see [StripResponse].
func NewDownload(resp *http.Response, name string, direction *flow.Direction) Download {
	return Download{ReadCloser: resp.Body, response: resp, proxy: name, flow: direction}
}

// Read counts what it returned before as delivered.
func (d *Download) Read(p []byte) (int, error) {
	d.flow.Delivered() // else nobody would read on
	n, err := d.ReadCloser.Read(p)
	if n > 0 {
		d.flow.Received()
	}
	switch {
	case err == io.EOF && len(d.response.Trailer) > 0:
		StripResponse(d.response.Trailer, d.proxy, false)
	case err != nil && err != io.EOF:
		d.cut = err
	}
	return n, err
}

// Cut says why the body ended too early; nil if it did not so far.
func (d *Download) Cut() error { return d.cut }
