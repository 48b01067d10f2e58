package identity

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRealUserAgents reads testdata/useragents.txt, which begins with its format.
func TestRealUserAgents(t *testing.T) {
	text, err := os.ReadFile("testdata/useragents.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		want, userAgent, found := strings.Cut(line, "\t")
		if quoted, err := strconv.Unquote(userAgent); err == nil {
			userAgent = quoted
		}
		if !found {
			t.Fatalf("no tab in the line %q", line)
		}
		tried++
		if got := productToken(userAgent); got != want {
			t.Errorf("%q: %q, want %q", userAgent, got, want)
		}
	}
	if tried < 75 {
		t.Errorf("%d User-Agents were tried", tried)
	}
}
