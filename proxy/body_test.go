package proxy

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/flow"
)

// An origin that breaks off has the transport close the upload, maybe while it is
// being read. That is no fault of the client's.
func TestUploadClosedIsNotMalformed(t *testing.T) {
	body, _ := io.Pipe()
	u := newUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body}, new(flow.Direction))
	u.Close()
	if _, err := u.Read(make([]byte, 1)); err == nil {
		t.Fatal("what is closed can be read")
	}
	if err := u.malformed(); err != nil {
		t.Errorf("the client is blamed: %v", err)
	}
}

func TestUploadMalformed(t *testing.T) {
	body, client := io.Pipe()
	u := newUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body}, new(flow.Direction))
	client.CloseWithError(errors.New("the body ends before its end"))
	u.Read(make([]byte, 1))
	if u.malformed() == nil {
		t.Error("the client's error is lost")
	}
	u.Close()
	if u.malformed() == nil {
		t.Error("the client's error is forgotten")
	}
}

// panicking is a body, and a client, over which something panics.
type panicking struct{ flushed bool }

func (p *panicking) Read([]byte) (int, error)  { panic("read") }
func (p *panicking) Close() error              { return nil }
func (p *panicking) Header() http.Header       { return http.Header{} }
func (p *panicking) WriteHeader(int)           { panic("written") }
func (p *panicking) Write([]byte) (int, error) { panic("written") }
func (p *panicking) Flush()                    { p.flushed = true }

// A handler that has panicked leaves no timer behind, which would flush what is
// another's by then, or panic where nobody recovers.
func TestPanicOverABodyStopsItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panicking{}
		func() {
			defer func() { recover() }()
			(&responseWriter{ResponseWriter: p}).ReadFrom(p)
		}()
		time.Sleep(2 * headerDelay)
		synctest.Wait()
		if p.flushed {
			t.Error("it was flushed after its end")
		}
	})
}

// The transport calls for 1xx responses where nobody recovers.
func TestPanicOverAnEarlyResponseIsItsError(t *testing.T) {
	e := early{to: &panicking{}}
	if err := e.pass(http.StatusEarlyHints, nil); err == nil {
		t.Error("no error")
	}
	e.end() // which the panic must not have locked out
}
