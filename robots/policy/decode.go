package policy

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// decoded is the body as text. No encoding is asked for, but some servers know
// nothing else than gzip, and some name in Content-Encoding what is none (the
// character set): those are read as they come.
func decoded(resp *http.Response) (io.Reader, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "gzip", "x-gzip":
		packed := &budgeted{resp.Body, maxOverhead}
		body := bufio.NewReader(packed)
		if _, err := body.Peek(1); err == io.EOF {
			return body, nil // 204 and other empty ones
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

// maxOverhead is how many octets of gzip may come beyond those that they yield. What
// can be made smaller takes less, and all else little more; a header may hold 64 KiB
// of what says nothing.
const maxOverhead = 128 << 10

// A budgeted reader fails where more is read than its budget, to which others may add.
type budgeted struct {
	io.Reader
	left int
}

func (b *budgeted) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("gzip that yields next to nothing")
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// members reads gzip as gzip(1) does: member after member (RFC 1952 2.2), and
// zeros after one are padding. What it yields earns budget for what it reads.
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
				err = nil // it is met again below
			}
			return n, err
		}
		if err := m.next(); err != nil {
			return 0, err
		}
	}
}

// next begins the member that follows; io.EOF if none does.
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
