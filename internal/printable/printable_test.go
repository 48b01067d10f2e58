package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"Disallow: /a\\b":           "Disallow: /a\\b",
		"Grüße, 世界 🙂 e\u0301":       "Grüße, 世界 🙂 e\u0301",
		"a\u00a0b\u3000c":           "a\u00a0b\u3000c", // spaces are seen as such
		"\x1b[2J\x1b]0;title\a":     `\x1b[2J\x1b]0;title\x07`,
		"a\r\nb\tc\x00\x7f":         `a\r\nb\tc\x00\x7f`,
		"\u009b31m\u0085":           `\u009b31m\u0085`,
		"\u202ecod.exe\u2066\u2069": `\u202ecod.exe\u2066\u2069`,
		"\u200e\u200f\u061c":        `\u200e\u200f\u061c`,
		"\ufeff\u200b\u00ad":        `\ufeff\u200b\u00ad`,
		"\u2028\u2029":              `\u2028\u2029`,
		"\U000e0041\ue000":          `\U000e0041\ue000`,
		"a\xffb\xc3":                `a\xffb\xc3`,
		"\ufffd":                    "\ufffd",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTextKeepsItsLines(t *testing.T) {
	if got, want := Text("a\n\tb\r\n\x1b[m\u202e"), "a\n\tb\\r\n\\x1b[m\\u202e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text string
		max  int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aäb", 2, "a…"}, // ä is two octets
		{"aäb", 3, "aä…"},
		{"🙂", 3, "…"},
		{"\x80\x80\x80", 2, "…"},
	} {
		if got := Cut(test.text, test.max); got != test.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", test.text, test.max, got, test.want)
		}
	}
}

// What is shown holds nothing hidden, and the JSON still says the same.
func FuzzPrintable(f *testing.F) {
	f.Add("Disallow: /a")
	f.Add("\x1b[2J\u009b\u202e\U000e0041\xff\\\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		hidden := func(r rune) bool { return !unicode.IsGraphic(r) }
		if got := Line(text); !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) {
			t.Errorf("Line(%q) = %q hides something", text, got)
		}
		safe, err := Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsFunc(bytes.TrimSuffix(safe, []byte("\n")), hidden) {
			t.Errorf("JSON of %q is %q and hides something", text, safe)
		}
		var read string
		want := string([]rune(text)) // as encoding/json: U+FFFD for octets that are no UTF-8
		if err := json.Unmarshal(safe, &read); err != nil || read != want {
			t.Errorf("JSON of %q is %q, which is read as %q: %v", text, safe, read, err)
		}
	})
}

func TestPlainTextCostsNothing(t *testing.T) {
	line := []byte(`{"level":"info","url":"https://example.com/ä"}` + "\n")
	if n := testing.AllocsPerRun(100, func() { JSON(line); Line("https://example.com/ä") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
