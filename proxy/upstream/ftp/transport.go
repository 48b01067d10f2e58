// Package ftp answers HTTP requests for ftp URLs by asking FTP servers. A [Transport] sends
// them; [CheckPath] says beforehand whether it would take a path.
package ftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"

	"robotsproxy/internal/printable"
)

// Transport answers a request for an ftp URL with a file, or with a list of the names in a
// directory. It logs in as anonymous (RFC 1635); the request's From, if it has one, is the
// password. Paths begin at the directory that the login leads to (RFC 1738 3.2.2).
//
// Each request has its own control connection, which ends with the response's body or with
// the request's context. A server can't lead it elsewhere: data connections go to the host
// of the control connection, whatever the server says, by the same Dial.
type Transport struct {
	// Dial opens connections. It must check where they go.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// ReplyTimeout bounds all that comes before the response's header, and the wait for
	// the last reply.
	ReplyTimeout time.Duration
}

// RoundTrip implements [http.RoundTripper] for GET and HEAD. It does not read a request's
// body, which means nothing to an FTP server.
//
// A server's refusal is a response: 404 for what it does not have or show, 503 if it can't
// serve it now or refuses the login, else 502. A full server may refuse the login too, so
// that must not look like a missing robots.txt.
func (t *Transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	name, err := parsePath(r.URL.RequestURI())
	if err != nil {
		return nil, err
	}
	s := &session{}
	// The library slices some replies without checking their length, so a server can make
	// it panic.
	defer func() {
		if cause := recover(); cause != nil {
			s.close()
			resp, err = nil, textproto.ProtocolError(fmt.Sprintf("malformed FTP reply: %v", cause))
		}
	}()
	if err = t.login(r, s); err == nil {
		if directory, slash := strings.CutSuffix(name, "/"); slash {
			resp, err = s.list(r, cmp.Or(s.home+directory, "/"))
		} else {
			resp, err = s.file(r, name)
		}
	}
	if err != nil {
		s.close()
	}
	var reply *textproto.Error
	if errors.As(err, &reply) {
		status := http.StatusBadGateway
		switch {
		case reply.Code == ftp.StatusFileUnavailable, reply.Code == ftp.StatusBadFileName:
			status = http.StatusNotFound
		case reply.Code/100 == 4, reply.Code == ftp.StatusNotLoggedIn:
			status = http.StatusServiceUnavailable
		}
		return plainText(r, status, fmt.Sprintf("the FTP server says: %d %s\n", reply.Code, printable.Text(printable.Cut(reply.Msg, maxReplyShown)))), nil
	}
	return resp, err
}

// maxReplyShown bounds, in octets, how much of a server's refusal is shown.
const maxReplyShown = 1 << 10

func plainText(r *http.Request, status int, text string) *http.Response {
	return &http.Response{
		StatusCode: status,
		Status:     strconv.Itoa(status) + " " + http.StatusText(status),
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"text/plain; charset=utf-8"},
			"Content-Length": {strconv.Itoa(len(text))},
		},
		Body:          io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
		Request:       r,
	}
}
