package message

import (
	"io"
	"net/http"
	"time"
)

const (
	// maxDrain is the longest body, in octets, that is read so that its connection can be
	// used again.
	maxDrain = 256 << 10
	// drainTimeout is how long that body may take to come. Its client waits for the answer.
	drainTimeout = time.Second
	// maxLinger is how long a client may go on sending after it was answered, and
	// lingerPause how long it may pause.
	maxLinger   = 30 * time.Second
	lingerPause = 2 * time.Second
)

// Drain reads and discards the body of a request that is answered without it, if it is
// short. It reports false if the body has not been read to its end: then the connection
// can't be used again, and the answer must say so. HTTP/2 needs none of this.
//
// net/http would do it by itself, but without a bound on the time.
func Drain(w http.ResponseWriter, r *http.Request, body io.Reader) (whole bool) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return true
	}
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	if r.ContentLength < 0 || r.ContentLength > maxDrain || r.Header["Expect"] != nil { // to read would ask for the body
		return false
	}
	control.SetReadDeadline(time.Now().Add(drainTimeout))
	defer control.SetReadDeadline(time.Time{})
	_, err := io.Copy(io.Discard, body)
	return err == nil
}

// Linger sends what has been written, and discards what the client still sends. Many
// clients send all of a request before they read. If the connection were closed meanwhile,
// it would be reset, and they would never see the answer (RFC 9112 9.6).
func Linger(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	control.Flush()
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	end := time.Now().Add(maxLinger)
	for now := time.Now(); now.Before(end); now = time.Now() {
		control.SetReadDeadline(now.Add(lingerPause))
		if _, err := body.Read(buf[:]); err != nil {
			return
		}
	}
}
