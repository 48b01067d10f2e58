// Package encoding is how the stores that last write the texts and times of records:
// texts compressed with gzip, times as Unix milliseconds.
package encoding

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"
	"time"
)

// The pools hold writers and readers to use again. To make a writer costs forty times
// what it costs to compress an ordinary robots.txt. A reader takes 40 KB.
var writers, readers sync.Pool

// Gzip compresses a text.
func Gzip(text []byte) []byte {
	var b bytes.Buffer
	w, ok := writers.Get().(*gzip.Writer)
	if !ok {
		w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	}
	w.Reset(&b)
	w.Write(text) // a bytes.Buffer takes everything
	w.Close()
	writers.Put(w)
	return b.Bytes()
}

// Gunzip returns the text that [Gzip] compressed. It returns an error if that was damaged
// since.
func Gunzip(compressed []byte) ([]byte, error) {
	r, ok := readers.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	defer readers.Put(r)
	if err := r.Reset(bytes.NewReader(compressed)); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	return bytes.Clone(text), err // a clone has no spare capacity
}

// Milliseconds is a time as it is stored: Unix milliseconds, 0 for the zero time.
func Milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the time that [Milliseconds] turned into n, in UTC.
func Time(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
