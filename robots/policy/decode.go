package policy

import (
	"bufio"
	"compress/gzip"
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
		body := bufio.NewReader(resp.Body)
		if _, err := body.Peek(1); err == io.EOF {
			return body, nil // 204 and other empty ones
		}
		member, err := gzip.NewReader(body)
		return &members{body, member}, err
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

// members reads gzip as gzip(1) does: member after member (RFC 1952 2.2), and
// zeros after one are padding.
type members struct {
	body   *bufio.Reader
	member *gzip.Reader
}

func (m *members) Read(p []byte) (int, error) {
	for {
		m.member.Multistream(false)
		n, err := m.member.Read(p)
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
