package message

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"robotsproxy/proxy/flow"
)

// When an origin breaks off, the transport closes the upload, maybe while it reads it. The
// client is not to blame.
func TestClosedUploadIsNotMalformed(t *testing.T) {
	body, _ := io.Pipe()
	u := NewUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body}, new(flow.Direction))
	u.Close()
	if _, err := u.Read(make([]byte, 1)); err == nil {
		t.Fatal("a closed upload can be read")
	}
	if err := u.Malformed(); err != nil {
		t.Errorf("the client is blamed: %v", err)
	}
}

func TestUploadMalformed(t *testing.T) {
	body, client := io.Pipe()
	u := NewUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body}, new(flow.Direction))
	client.CloseWithError(errors.New("the body ends before its end"))
	u.Read(make([]byte, 1))
	if u.Malformed() == nil {
		t.Error("the client's error is lost")
	}
	u.Close()
	if u.Malformed() == nil {
		t.Error("the client's error is forgotten")
	}
}

// panicking is a body and a client whose methods panic.
type panicking struct{ flushed bool }

func (p *panicking) Read([]byte) (int, error)  { panic("read") }
func (p *panicking) Close() error              { return nil }
func (p *panicking) Header() http.Header       { return http.Header{} }
func (p *panicking) WriteHeader(int)           { panic("written") }
func (p *panicking) Write([]byte) (int, error) { panic("written") }
func (p *panicking) Flush()                    { p.flushed = true }

// A handler that has panicked leaves no timer behind. The timer would flush what belongs to
// another request by then, or panic where nobody recovers.
func TestPanicWhileReadingStopsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &panicking{}
		func() {
			defer func() { recover() }()
			(&Writer{ResponseWriter: p}).ReadFrom(p)
		}()
		time.Sleep(2 * headerDelay)
		synctest.Wait()
		if p.flushed {
			t.Error("flushed after the end")
		}
	})
}

// The transport calls pass where nobody recovers.
func TestPanicInInterimResponseIsAnError(t *testing.T) {
	e := Interim{to: &panicking{}}
	if err := e.pass(http.StatusEarlyHints, nil); err == nil {
		t.Error("no error")
	}
	e.End() // hangs if the panic has left the lock held
}
