package evidence

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"robotsproxy/robots/store"
)

// A warc writes a WARC/1.1 file (ISO 28500:2017), in which each record is compressed by itself
// (annex D). Digests are in hex, so that they are found by the sums that logs have.
type warc struct {
	w    io.Writer
	info string // ID of the warcinfo record
}

// newWARC begins a file with its warcinfo record, which is dated at.
func newWARC(w io.Writer, software string, at time.Time) (*warc, error) {
	block := []byte("software: " + software + "\r\n" +
		"format: WARC File Format 1.1\r\n" +
		"conformsTo: https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n" +
		"description: texts that say what bots may do, as robotsproxy has read them; without the HTTP header, and no longer than it reads\r\n")
	f := &warc{w: w}
	f.info = recordID("warcinfo", string(block), warcDate(at))
	return f, f.write(block,
		"WARC-Type", "warcinfo",
		"WARC-Record-ID", "<"+f.info+">",
		"WARC-Date", warcDate(at),
		"WARC-Filename", textsFile,
		"WARC-Block-Digest", digest(block),
		"Content-Type", "application/warc-fields",
	)
}

// resource writes a version of a file, dated when it was first fetched, and returns the ID of
// its record. The record's block is the text, without HTTP header, so both digests are that of
// the text.
func (f *warc) resource(url, mediaType string, v store.Version) (id string, err error) {
	sum, date := digest(v.Body), warcDate(v.FirstSeen)
	id = recordID(url, sum, date)
	return id, f.write(v.Body,
		"WARC-Type", "resource",
		"WARC-Record-ID", "<"+id+">",
		"WARC-Date", date,
		"WARC-Target-URI", url,
		"WARC-Warcinfo-ID", "<"+f.info+">",
		"WARC-Block-Digest", sum,
		"WARC-Payload-Digest", sum,
		"Content-Type", mediaType,
	)
}

// write writes a record with these header fields, names and values in turn.
func (f *warc) write(block []byte, fields ...string) error {
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

func warcDate(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
