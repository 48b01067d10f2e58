package proxy

import (
	"errors"
	"io"
	"net/http"
	"testing"
)

// An origin that breaks off has the transport close the upload, maybe while it is
// being read. That is no fault of the client's.
func TestUploadClosedIsNotMalformed(t *testing.T) {
	body, _ := io.Pipe()
	u := newUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body})
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
	u := newUpload(&http.Request{ProtoMajor: 2, ContentLength: -1, Body: body})
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
