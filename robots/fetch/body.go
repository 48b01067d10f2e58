package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"robotsproxy/robots"
	"robotsproxy/robots/tdmrep"
)

// readBody returns the text of a response that has the file of a path, at most max octets of
// it.
func readBody(resp *http.Response, path string, max int64) ([]byte, error) {
	plain, err := decode(resp)
	if err != nil {
		return nil, err
	}
	if path == tdmrep.Path {
		return read(plain, max, tdmrep.Cut)
	}
	return Read(plain, max)
}

// Read reads the part of a robots.txt that counts: at most max octets, and no last line
// that is cut there. Its errors are those of r.
func Read(r io.Reader, max int64) ([]byte, error) {
	return read(r, max, func(body []byte, max int64) ([]byte, error) { return robots.Cut(body, max), nil })
}

// read reads max octets and one more, which tells cut whether there are more, and returns
// the part that counts.
func read(r io.Reader, max int64, cut func([]byte, int64) ([]byte, error)) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	counts, err := cut(body, max)
	return bytes.Clone(counts), err // without the spare capacity of ReadAll
}

// decode returns the body as text. A fetch never asks for a coding, but some servers send
// gzip all the same. Others put something else into Content-Encoding, such as the character
// set: their bodies are read as they are.
func decode(resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "gzip", "x-gzip":
		packed := &budgeted{resp.Body, maxOverhead}
		body := bufio.NewReader(packed)
		if _, err := body.Peek(1); err == io.EOF {
			return body, nil // a 204 or another empty body
		}
		member, err := gzip.NewReader(body)
		return &members{packed, body, member}, err
	}
	for _, compressed := range []string{"gzip", "br", "zstd", "deflate", "compress"} {
		for name := range strings.SplitSeq(coding, ",") {
			if strings.TrimSpace(name) == compressed {
				return nil, fmt.Errorf("Content-Encoding %s, which was not asked for", coding)
			}
		}
	}
	return resp.Body, nil
}

// maxOverhead bounds how many more octets of gzip are read than they yield. Data that does
// not compress grows only a little, but a header may hold 64 KiB that yield nothing.
const maxOverhead = 128 << 10

// A budgeted reader fails once left is used up. Its owner may add to left.
type budgeted struct {
	io.Reader
	left int // octets
}

func (b *budgeted) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("gzip that yields next to nothing")
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// members reads gzip as gzip(1) does: member after member (RFC 1952 2.2), and zeros after
// a member are padding. Each octet that it yields adds one to the budget of packed.
type members struct {
	packed *budgeted
	body   *bufio.Reader
	member *gzip.Reader
}

func (m *members) Read(p []byte) (int, error) {
	for {
		m.member.Multistream(false)
		n, err := m.member.Read(p)
		m.packed.left += n
		if n > 0 || err != io.EOF {
			if err == io.EOF {
				err = nil // the next Read finds it again
			}
			return n, err
		}
		if err := m.next(); err != nil {
			return 0, err
		}
	}
}

// next begins the next member. It returns io.EOF if there is none.
func (m *members) next() error {
	for {
		first, err := m.body.Peek(1)
		if err != nil {
			return err
		}
		if first[0] != 0 {
			return m.member.Reset(m.body)
		}
		m.body.Discard(1)
	}
}
