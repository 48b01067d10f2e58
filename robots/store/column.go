package store

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"sync"
	"time"
)

// A packer compresses texts. It uses its writers again: a new one costs forty
// times what it takes to compress an ordinary robots.txt.
type packer struct{ writers sync.Pool }

func (p *packer) pack(text []byte) []byte {
	var b bytes.Buffer
	w, ok := p.writers.Get().(*gzip.Writer)
	if !ok {
		w = gzip.NewWriter(nil)
	}
	w.Reset(&b)
	w.Write(text) // a bytes.Buffer takes everything
	w.Close()
	p.writers.Put(w)
	return b.Bytes()
}

func unpack(packed []byte) ([]byte, error) {
	r, ok := unpackers.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	defer unpackers.Put(r)
	if err := r.Reset(bytes.NewReader(packed)); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return bytes.Clone(text), err // without what ReadAll holds in reserve
}

// unpackers holds readers: one takes 40 KB.
var unpackers sync.Pool

// ms is how a time is kept: Unix milliseconds, 0 for the zero time.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// at scans what ms has written.
type at struct{ time *time.Time }

func (a at) Scan(value any) error {
	n, ok := value.(int64)
	if !ok {
		return fmt.Errorf("%v is no time", value)
	}
	*a.time = time.Time{}
	if n != 0 {
		*a.time = time.UnixMilli(n).UTC()
	}
	return nil
}
