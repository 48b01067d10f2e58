package store

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"
)

func pack(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(text) // a bytes.Buffer takes everything
	w.Close()
	return b.Bytes()
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return bytes.Clone(text), err // without what ReadAll holds in reserve
}

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
