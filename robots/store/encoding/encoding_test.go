package encoding

import (
	"bytes"
	"testing"
	"time"
)

func TestTextsComeBack(t *testing.T) {
	for _, text := range []string{"", "Disallow: /\n", "User-agent: *\x00\xff\n"} {
		compressed := Gzip([]byte(text))
		got, err := Gunzip(compressed)
		if err != nil || string(got) != text {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
		for _, damaged := range [][]byte{nil, compressed[:len(compressed)-1], bytes.Replace(compressed, compressed[len(compressed)-8:], make([]byte, 8), 1)} {
			if got, err := Gunzip(damaged); err == nil && (text != "" || len(damaged) < len(compressed)) {
				t.Errorf("%q, damaged: got %q", text, got)
			}
		}
	}
}

func TestTimesComeBack(t *testing.T) {
	for _, want := range []time.Time{{}, time.UnixMilli(1).UTC(), time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)} {
		n := Milliseconds(want)
		if got := Time(n); !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
