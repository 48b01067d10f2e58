package policy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/robots"
)

// read returns the text of a response, max_bytes of it at most.
func (v *visit) read(resp *http.Response) ([]byte, error) {
	plain, err := decode(resp)
	if err != nil {
		return nil, err
	}
	return Read(plain, v.opts.MaxBytes)
}

// Read reads the part of a robots.txt that counts: at most max octets, without a last
// line that is cut there. The errors are those of r.
func Read(r io.Reader, max int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, max+1)) // one octet more tells whether the last line is cut
	if err != nil {
		return nil, err
	}
	return bytes.Clone(robots.Cut(body, max)), nil // without the spare capacity of ReadAll
}

// decode returns the body as text. No fetch asks for a coding, but some servers send
// gzip all the same. Others name something else in Content-Encoding, such as the character
// set: their bodies are read as they come.
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

// maxOverhead is how many octets of gzip may come beyond those that they yield. Data that
// does not compress grows only a little, but a header may hold 64 KiB that yield nothing.
const maxOverhead = 128 << 10

// A budgeted reader fails once its budget is used up. Others may add to the budget.
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

// members reads gzip as gzip(1) does: member after member (RFC 1952 2.2), with zeros
// after a member as padding. Each octet that it yields adds one to the budget for reading.
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

// next begins the next member; io.EOF if there is none.
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

// lifetime is how long an answer with this header counts: its Cache-Control max-age
// within min_ttl and max_ttl, or ttl. It ignores s-maxage, which is for shared caches of
// pages, and Expires, which depends on the origin's clock.
func (o Options) lifetime(h http.Header) time.Duration {
	lifetime, given := min(o.TTL, o.MaxTTL), false
	for name, value := range directives(strings.Join(h.Values("Cache-Control"), ",")) {
		switch name {
		case "no-store", "no-cache":
			return o.MinTTL
		case "max-age":
			if age, ok := deltaSeconds(value); ok && !given {
				lifetime = min(max(age, o.MinTTL), o.MaxTTL)
			}
			given = true // RFC 9111 4.2.1: of several, the first
		}
	}
	return lifetime
}

// deltaSeconds parses delta-seconds of RFC 9111 1.2.2: digits alone. A number that is too
// large counts as the largest.
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const maxSeconds = math.MaxInt64 / int64(time.Second)
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil || seconds > maxSeconds {
		seconds = maxSeconds
	}
	return time.Duration(seconds) * time.Second, true
}

// directives yields the names, in lower case, and the arguments of a Cache-Control
// value: RFC 9111 5.2. A comma within a quoted string does not end a directive.
func directives(s string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for s != "" {
			var directive string
			directive, s = cutDirective(s)
			name, value, _ := strings.Cut(strings.Trim(directive, " \t"), "=")
			if !yield(strings.ToLower(name), unquote(value)) {
				return
			}
		}
	}
}

// cutDirective cuts s at its first comma outside a quoted string.
func cutDirective(s string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// unquote removes the quotes of a quoted string. It leaves escapes, which no number
// needs.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
