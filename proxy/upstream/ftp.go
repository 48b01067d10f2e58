package upstream

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

	"robotsproxy/internal/printable"
)

// FTPTypeImage is the type in which files are fetched anyway (RFC 1738 3.2.2). It may
// stand at the end of an ftp URL's path, and no rule has it.
const FTPTypeImage = ";type=i"

// CheckFTPPath returns an error for the path of an ftp URL that no FTP server is asked
// for: one that servers read in another way than robots.txt.
func CheckFTPPath(written string) error {
	_, err := ftpPath(written)
	return err
}

// ftpPath is what an FTP server is asked for at a URL of this path: decoded, with
// dot segments resolved, a slash at the end if only a directory can be meant.
//
// It refuses what servers read in another way than robots.txt, so that nothing
// is judged as one file and fetched as another.
func ftpPath(written string) (string, error) {
	if i := strings.LastIndexByte(written, ';'); i >= 0 && strings.HasPrefix(strings.ToLower(written[i:]), ";type=") {
		return "", errors.New("an ftp URL in another type than " + FTPTypeImage + "; files are sent as they are")
	}
	if !strings.HasPrefix(written, "/") || strings.Contains(written, "?") {
		return "", errors.New("an ftp URL has no query; write %3F")
	}
	var names []string
	segments := strings.Split(written[1:], "/")
	for i, segment := range segments {
		name, err := url.PathUnescape(segment)
		switch {
		case err != nil:
			return "", err
		case name == "" && i < len(segments)-1:
			return "", errors.New("an empty segment in the path of an ftp URL")
		case strings.HasSuffix(name, " "), strings.ContainsFunc(name, isDivider), strings.IndexByte(name, telnetCommand) >= 0:
			return "", fmt.Errorf("the segment %q in the path of an ftp URL: servers differ in how they read it", segment)
		case name == "..":
			names = names[:max(len(names)-1, 0)]
		case name != "" && name != ".":
			names = append(names, name)
		}
		if i == len(segments)-1 && len(names) > 0 && (name == "" || name == "." || name == "..") {
			names = append(names, "")
		}
	}
	return "/" + strings.Join(names, "/"), nil
}

// isDivider reports whether a server may take a character of a name as the end
// of something: a segment, a line, a string.
func isDivider(c rune) bool { return c == '/' || c == '\\' || c < ' ' || c == 0x7F }

// telnetCommand begins, on an FTP connection, an instruction that some servers
// take out of the line that it stands in (RFC 854).
const telnetCommand = 0xFF

// ftpTransport asks FTP servers what is asked in HTTP: a file, or a list of the
// names in a directory. It logs in as anonymous (RFC 1635), with From as the
// password if the request has one; a path begins where the login leads to
// (RFC 1738 3.2.2).
//
// Each request has a control connection of its own, which ends with the
// response's body or the request's context. The server can't lead it elsewhere:
// for data, whatever it says, the host is that of the control connection, and the
// dialer's check is made again.
type ftpTransport struct {
	dialer       *dialer
	replyTimeout time.Duration // for all that comes before the response's header; for the last reply
}

// errFTPBySOCKS says why an ftp URL is not fetched.
var errFTPBySOCKS = errors.New("ftp is not served through a SOCKS5 parent proxy; an HTTP one in upstream.proxy may serve it")

// RoundTrip implements [http.RoundTripper] for GET and HEAD. A request's body
// says nothing to an FTP server: it is not read.
//
// A server that refuses gives a response: 404 for what it does not have or show,
// 503 if it cannot now or lets nobody in, else 502. A refused login may well be
// for want of a place, so it must not look like a missing robots.txt.
//
// The library slices some replies without looking at their length, so a server can
// make it panic: that is an error about its reply, like any other.
func (t *ftpTransport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	name, err := ftpPath(r.URL.RequestURI())
	if err != nil {
		return nil, err
	}
	s := &ftpSession{}
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
		return plain(r, status, fmt.Sprintf("the FTP server says: %d %s\n", reply.Code, printable.Text(printable.Cut(reply.Msg, maxReplyShown)))), nil
	}
	return resp, err
}

// maxReplyShown bounds, in octets, what is shown of a server's refusal.
const maxReplyShown = 1 << 10

// ftpSession is one control connection and its data connection.
type ftpSession struct {
	*ftp.ServerConn          // nil before the greeting
	home            string   // the path of URLs' "/", without a slash at the end
	control, data   *ftpConn // nil until there is one
}

// What a server can make us hold: in a session's replies, and in a directory's list,
// whose lines take more memory than their octets.
const (
	maxReplyOctets = 64 << 10
	maxListOctets  = 16 << 20
	maxListLines   = 128 << 10
)

// login connects s to a server. Whatever reply keeps it out is a 530.
func (t *ftpTransport) login(r *http.Request, s *ftpSession) error {
	var latest time.Time
	dial := func(network, address string) (net.Conn, error) {
		conn, err := t.dialer.DialContext(r.Context(), network, address)
		if err != nil {
			return nil, err
		}
		c := &ftpConn{Conn: conn, forget: context.AfterFunc(r.Context(), func() { conn.Close() })}
		if s.control == nil {
			s.control, c.octets, c.lines = c, maxReplyOctets, maxReplyOctets
			latest = time.Now().Add(t.replyTimeout)
		} else {
			s.data, c.octets, c.lines = c, maxListOctets, maxListLines
		}
		conn.SetDeadline(latest)
		return c, nil
	}
	server := net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "21"))
	var err error
	s.ServerConn, err = ftp.Dial(server, ftp.DialWithDialFunc(dial), ftp.DialWithShutTimeout(t.replyTimeout))
	if err == nil {
		err = s.Login("anonymous", ftpPassword(r.Header.Get("From")))
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

// maxMailAddress is that of RFC 5321 4.5.3.1.3.
const maxMailAddress = 256

// ftpPassword is what an anonymous login says for a password: a mail address
// (RFC 1635). What a client calls one goes into the line of a command, so nothing
// but printable ASCII does.
func ftpPassword(from string) string {
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	if from == "" || len(from) > maxMailAddress || strings.ContainsFunc(from, unprintable) {
		return "anonymous@"
	}
	return from
}

// isReply reports whether an error is what the server said, not that it could
// not be heard. The library gives some replies as their bare text.
func isReply(err error) bool {
	var unheard net.Error
	var garbled textproto.ProtocolError
	return !errors.As(err, &unheard) && !errors.As(err, &garbled) &&
		!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errFTPTooLong)
}

func (s *ftpSession) close() {
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

// file answers with a file. Its size and time are told if the server tells them.
func (s *ftpSession) file(r *http.Request, name string) (*http.Response, error) {
	resp := plain(r, http.StatusOK, "")
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
		// A rule may be about the directory as it is spelled with its slash.
		s.close()
		resp = plain(r, http.StatusMovedPermanently, "a directory\n")
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
	resp.Body = &ftpBody{session: s, transfer: transfer, left: size}
	return resp, nil
}

// list answers with the names in a directory, one a line, with a slash after
// those of directories.
func (s *ftpSession) list(r *http.Request, directory string) (*http.Response, error) {
	// It is made the current one, as servers take what follows LIST for options
	// and patterns too.
	if err := s.ChangeDir(directory); err != nil {
		return nil, err
	}
	if r.Method == http.MethodHead {
		s.close()
		resp := plain(r, http.StatusOK, "")
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
	return plain(r, http.StatusOK, names.String()), nil
}

// plain is a response of plain text.
func plain(r *http.Request, status int, text string) *http.Response {
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

// ftpBody is a file as it comes. It ends with io.EOF only if the file is whole:
// as long as the server said, or of no stated length and confirmed afterwards.
type ftpBody struct {
	session  *ftpSession
	transfer *ftp.Response
	left     int64 // octets to come; negative if that is not known
}

func (b *ftpBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF // a file that grows meanwhile, too, has the length that was stated
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
			err = fmt.Errorf("the end of a file: %w", end)
		}
	}
	return n, err
}

func (b *ftpBody) Close() error {
	b.session.close()
	return nil
}

// ftpConn ends with the request's context and takes so much from the server.
type ftpConn struct {
	net.Conn
	forget        func() bool
	octets, lines int64 // that may still come
}

// errFTPTooLong ends a connection on which a server says too much.
var errFTPTooLong = errors.New("the FTP server says more than it may")

func (c *ftpConn) Read(p []byte) (int, error) {
	if c.octets <= 0 || c.lines <= 0 {
		return 0, errFTPTooLong
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.octets)])
	c.octets -= int64(n)
	if c.lines < math.MaxInt64 {
		c.lines -= int64(bytes.Count(p[:n], []byte{'\n'}))
	}
	return n, err
}

func (c *ftpConn) Close() error {
	c.forget()
	return c.Conn.Close()
}
