// Package warc writes WARC/1.1 files (ISO 28500:2017) of texts that are kept without the
// exchange by which they came: a warcinfo record, and a resource record for each text. Make a
// [Writer] with [NewWriter]. The same texts make the same file, octet by octet.
package warc

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
)

// Info is what a file says of itself.
type Info struct {
	Filename    string
	Software    string // that writes it, as in robotsproxy/1.2.3
	Description string
	Date        time.Time
}

// A Writer writes a file, in which each record is compressed by itself (annex D). Digests are
// in hex, so that they are found by the sums that logs have.
type Writer struct {
	w    io.Writer
	info string // ID of the warcinfo record
}

// NewWriter begins a file with its warcinfo record.
func NewWriter(w io.Writer, info Info) (*Writer, error) {
	block := []byte("software: " + info.Software + "\r\n" +
		"format: WARC File Format 1.1\r\n" +
		"conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n" +
		"description: " + info.Description + "\r\n")
	f := &Writer{w: w}
	f.info = recordID("warcinfo", string(block), date(info.Date))
	return f, f.write(block,
		"WARC-Type", "warcinfo",
		"WARC-Record-ID", "<"+f.info+">",
		"WARC-Date", date(info.Date),
		"WARC-Filename", info.Filename,
		"WARC-Block-Digest", digest(block),
		"Content-Type", "application/warc-fields",
	)
}

// Resource writes the text that a URL had at a time, and returns the ID of its record. The
// record's block is the text, without HTTP header, so both digests are that of the text. None
// of the values may have a line end.
func (f *Writer) Resource(url, mediaType string, text []byte, at time.Time) (id string, err error) {
	sum := digest(text)
	id = recordID(url, sum, date(at))
	return id, f.write(text,
		"WARC-Type", "resource",
		"WARC-Record-ID", "<"+id+">",
		"WARC-Date", date(at),
		"WARC-Target-URI", url,
		"WARC-Warcinfo-ID", "<"+f.info+">",
		"WARC-Block-Digest", sum,
		"WARC-Payload-Digest", sum,
		"Content-Type", mediaType,
	)
}

// write writes a record with these header fields, names and values in turn.
func (f *Writer) write(block []byte, fields ...string) error {
	var record bytes.Buffer
	record.WriteString("WARC/1.1\r\n")
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&record, "%s: %s\r\n", fields[i], fields[i+1])
	}
	fmt.Fprintf(&record, "Content-Length: %d\r\n\r\n", len(block))
	record.Write(block)
	record.WriteString("\r\n\r\n")
	packed := gzip.NewWriter(f.w)
	if _, err := packed.Write(record.Bytes()); err != nil {
		return err
	}
	return packed.Close()
}

// recordID returns the ID of the record that these texts tell from all others, always the same
// (RFC 9562 section 5.5).
func recordID(texts ...string) string {
	return "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%q", texts)).String()
}

func digest(block []byte) string {
	sum := sha256.Sum256(block)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
