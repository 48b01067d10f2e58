package ftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jlaffaye/ftp"
)

// session is a control connection and its data connection.
type session struct {
	*ftp.ServerConn              // nil before the greeting
	home            string       // the server's path for "/" in URLs, without a slash at the end
	control, data   *limitedConn // nil until they are open
}

// These bound what a server can make a session hold: its replies, and a directory's list,
// of which a line takes more memory than its octets.
const (
	maxReplyOctets = 64 << 10
	maxListOctets  = 16 << 20
	maxListLines   = 128 << 10
)

// login connects s to a server and logs in. If a reply of the server prevents that, the
// error is a [textproto.Error] with code 530.
func (t *Transport) login(r *http.Request, s *session) error {
	var latest time.Time
	dial := func(network, address string) (net.Conn, error) {
		conn, err := t.Dial(r.Context(), network, address)
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, forget: context.AfterFunc(r.Context(), func() { conn.Close() })}
		if s.control == nil {
			s.control, c.octets, c.lines = c, maxReplyOctets, maxReplyOctets
			latest = time.Now().Add(t.ReplyTimeout)
		} else {
			s.data, c.octets, c.lines = c, maxListOctets, maxListLines
		}
		conn.SetDeadline(latest)
		return c, nil
	}
	server := net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "21"))
	var err error
	s.ServerConn, err = ftp.Dial(server, ftp.DialWithDialFunc(dial), ftp.DialWithShutTimeout(t.ReplyTimeout))
	if err == nil {
		err = s.Login("anonymous", password(r.Header.Get("From")))
	}
	switch {
	case err == nil:
		home, err := s.CurrentDir()
		if err == nil && strings.HasPrefix(home, "/") {
			s.home = strings.TrimSuffix(home, "/")
		}
		return nil
	case isReply(err):
		refusal := &textproto.Error{Code: ftp.StatusNotLoggedIn, Msg: err.Error()}
		var reply *textproto.Error
		if errors.As(err, &reply) {
			refusal.Msg = reply.Msg
		}
		return refusal
	}
	return err
}

// maxMailAddress bounds a mail address, in octets (RFC 5321 4.5.3.1.3).
const maxMailAddress = 256

// password returns the password of an anonymous login: a mail address (RFC 1635). The one
// that a client states goes into a command line, so it must be printable ASCII.
func password(from string) string {
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	if from == "" || len(from) > maxMailAddress || strings.ContainsFunc(from, unprintable) {
		return "anonymous@"
	}
	return from
}

// isReply reports whether an error is a reply of the server, rather than a failure to get
// one. The library returns some replies as their bare text.
func isReply(err error) bool {
	var unheard net.Error
	var garbled textproto.ProtocolError
	return !errors.As(err, &unheard) && !errors.As(err, &garbled) &&
		!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errTooLong)
}

func (s *session) close() {
	if s.data != nil {
		s.data.Close()
	}
	switch {
	case s.ServerConn != nil:
		s.Quit()
	case s.control != nil:
		s.control.Close()
	}
}

// file responds with a file, and with its size and time if the server states them.
func (s *session) file(r *http.Request, name string) (*http.Response, error) {
	resp := plainText(r, http.StatusOK, "")
	contentType, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";") // the charset is a guess
	resp.Header.Set("Content-Type", cmp.Or(contentType, "application/octet-stream"))
	size, err := s.FileSize(s.home + name)
	if err != nil || size < 0 {
		size = -1
		resp.Header.Del("Content-Length")
	} else {
		resp.Header.Set("Content-Length", strconv.FormatInt(size, 10))
	}
	resp.ContentLength = size
	if modified, err := s.GetTime(s.home + name); err == nil {
		resp.Header.Set("Last-Modified", modified.Format(http.TimeFormat))
	}
	if r.Method == http.MethodHead && size >= 0 {
		s.close()
		return resp, nil
	}
	transfer, err := s.Retr(s.home + name)
	var reply *textproto.Error
	switch {
	case errors.As(err, &reply) && reply.Code == ftp.StatusFileUnavailable && s.ChangeDir(s.home+name) == nil:
		// Rules may match the directory only as it is spelled with its slash.
		s.close()
		resp = plainText(r, http.StatusMovedPermanently, "a directory\n")
		resp.Header.Set("Location", (&url.URL{Path: name + "/"}).EscapedPath())
		return resp, nil
	case err != nil:
		return nil, err
	case r.Method == http.MethodHead:
		s.close()
		return resp, nil
	}
	s.data.octets, s.data.lines = math.MaxInt64, math.MaxInt64
	s.data.SetDeadline(time.Time{})
	resp.Body = &body{session: s, transfer: transfer, left: size}
	return resp, nil
}

// list responds with the names in a directory, one a line. Those of directories end with a
// slash.
func (s *session) list(r *http.Request, directory string) (*http.Response, error) {
	// Servers may take what follows LIST for options or a pattern, so nothing follows it.
	if err := s.ChangeDir(directory); err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead {
		s.close()
		resp := plainText(r, http.StatusOK, "")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		return resp, nil
	}
	entries, err := s.List("")
	if err != nil {
		return nil, fmt.Errorf("listing a directory: %w", err)
	}
	s.close()
	var names strings.Builder
	for _, e := range entries {
		if e.Name == "." || e.Name == ".." || strings.Contains(e.Name, "/") {
			continue // the directory itself, or the one above
		}
		names.WriteString(e.Name)
		if e.Type == ftp.EntryTypeFolder {
			names.WriteByte('/')
		}
		names.WriteByte('\n')
	}
	return plainText(r, http.StatusOK, names.String()), nil
}

// body reads a file from its server. It ends with io.EOF only if the file is whole: it has
// the length that the server stated or, if none was stated, the server has confirmed it.
type body struct {
	session  *session
	transfer *ftp.Response
	left     int64 // octets to come; negative if unknown
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF // even if the file has grown since its length was stated
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.transfer.Read(p)
	switch {
	case b.left > 0:
		b.left -= int64(n)
		if err == io.EOF && b.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	case err == io.EOF:
		var reply *textproto.Error
		if end := b.transfer.Close(); end != nil && !(errors.As(end, &reply) && reply.Code/100 == 2) {
			err = fmt.Errorf("reading the end of a file: %w", end)
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.session.close()
	return nil
}

// limitedConn is a connection that ends with the request's context and bounds what the
// server may send.
type limitedConn struct {
	net.Conn
	forget        func() bool // ends the watch on the context
	octets, lines int64       // that may still come
}

// errTooLong ends a connection on which a server sends too much.
var errTooLong = errors.New("the FTP server sends more than it may")

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.octets <= 0 || c.lines <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.octets)])
	c.octets -= int64(n)
	if c.lines < math.MaxInt64 {
		c.lines -= int64(bytes.Count(p[:n], []byte{'\n'}))
	}
	return n, err
}

func (c *limitedConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
