package proxy

import (
	"io"
	"net/http"
	"time"
)

const (
	// maxReadAway is how long a body may be that is read away so that its connection can
	// be used again.
	maxReadAway = 256 << 10
	// readAwayFor is how long it may take to come. Its client waits for the answer.
	readAwayFor = time.Second
	// lingerFor is how long a client may go on to send after it was answered, and
	// lingerPause how long it may pause.
	lingerFor   = 30 * time.Second
	lingerPause = 2 * time.Second
)

// readAway reads the body of a request that is answered without it, if it is short. It
// reports false if the body has not been read to its end: then the connection cannot be
// used again, and the answer must say so. HTTP/2 needs none of this.
//
// net/http would do it by itself, but it waits for what never comes.
func readAway(w http.ResponseWriter, r *http.Request, body io.Reader) (whole bool) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return true
	}
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	if r.ContentLength < 0 || r.ContentLength > maxReadAway || r.Header["Expect"] != nil { // to read would ask for it
		return false
	}
	control.SetReadDeadline(time.Now().Add(readAwayFor))
	defer control.SetReadDeadline(time.Time{})
	_, err := io.Copy(io.Discard, body)
	return err == nil
}

// linger takes what a client still sends when it has been answered. Many send all of a
// request before they read, and a connection that is closed meanwhile is reset: they would
// never see the answer (RFC 9112 9.6).
func linger(w http.ResponseWriter, body io.Reader) {
	control := http.NewResponseController(w)
	control.Flush()
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	end := time.Now().Add(lingerFor)
	for now := time.Now(); now.Before(end); now = time.Now() {
		control.SetReadDeadline(now.Add(lingerPause))
		if _, err := body.Read(buf[:]); err != nil {
			return
		}
	}
}
