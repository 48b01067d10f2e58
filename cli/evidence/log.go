package evidence

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"robotsproxy/proxy/decision"
	"robotsproxy/robots"
	"robotsproxy/robots/store/counts"
)

// A Log is logs of the proxy in JSON. Their lines go into the archive as they are. Logs may be
// compressed with gzip. Lines that are no decisions are left out.
type Log struct {
	Names []string // in the order in which they are read
	Open  func(name string) (io.ReadCloser, error)
}

func (Log) file() string { return "decisions.jsonl.gz" }

func (l Log) read(ctx context.Context, scope *Scope, found *Found, take func(entry) error) error {
	nothing := true
	for _, name := range l.Names {
		file, err := l.Open(name)
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		r := logReader{scope: scope, found: found, nothing: &nothing, take: take}
		err = errors.Join(r.read(ctx, file), file.Close())
		if err != nil {
			return fmt.Errorf("reading the log %s: %w", name, err)
		}
	}
	if nothing {
		return ErrNothing
	}
	return nil
}

// maxLine bounds a line of a log, in octets. The proxy's are much shorter.
const maxLine = 1 << 20

// A logReader reads one log.
type logReader struct {
	scope   *Scope
	found   *Found
	nothing *bool // no decision of the period has been found, of whichever origin
	take    func(entry) error
}

func (r *logReader) read(ctx context.Context, log io.Reader) error {
	lines := bufio.NewReaderSize(log, maxLine)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(lines)
		if err != nil {
			return err
		}
		lines = bufio.NewReaderSize(unpacked, maxLine)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			r.found.Unreadable++
			for err == bufio.ErrBufferFull {
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		}
		if err == io.ErrUnexpectedEOF && len(line) == 0 {
			r.found.Unreadable++ // a compressed log that is cut
		}
		if err := r.readLine(bytes.TrimSpace(line)); err != nil {
			return err
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// A logLine is what matters here of a decision's line.
type logLine struct {
	Time    string `json:"time"`
	Message string `json:"message"`
	URL     string `json:"url"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason"`
	SHA256  string `json:"robots_sha256"`
}

// readLine takes a line that is a decision of the scope.
func (r *logReader) readLine(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	if !json.Valid(text) || !utf8.Valid(text) {
		r.found.Unreadable++
		return nil
	}
	var line logLine
	if !bytes.Contains(text, []byte(`"request"`)) || json.Unmarshal(text, &line) != nil || !line.isDecision() {
		return nil
	}
	at, err := time.Parse(time.RFC3339, line.Time)
	if err != nil || !isSHA256(line.SHA256) {
		r.found.Unreadable++
		return nil
	}
	if !r.scope.Has(counts.DayOf(at)) {
		return nil
	}
	*r.nothing = false
	e := entry{line: text, sha256: line.SHA256}
	if target, err := robots.ParseTarget(line.URL); err == nil {
		e.origin = target.Origin.String()
	}
	if !r.scope.has(e.origin) {
		return nil
	}
	return r.take(e)
}

func (l *logLine) isDecision() bool {
	allowed, disallowed := string(decision.Allowed), string(decision.Disallowed)
	return l.Message == "request" && l.URL != "" && l.Reason != "" && (l.Verdict == allowed || l.Verdict == disallowed)
}

// isSHA256 reports whether a text is "" or a sum in hex, as the proxy writes it.
func isSHA256(text string) bool {
	sum, err := hex.DecodeString(text)
	return text == "" || err == nil && len(sum) == sha256.Size && text == hex.EncodeToString(sum)
}
