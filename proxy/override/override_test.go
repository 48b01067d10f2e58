package override

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newOverride returns an override that ends at expires; "" for never.
func newOverride(t *testing.T, origin string, verdict Action, file, expires string) Override {
	t.Helper()
	o := Override{Verdict: verdict, RobotsFile: file}
	if err := o.Origin.UnmarshalText([]byte(origin)); err != nil {
		t.Fatal(err)
	}
	if expires != "" {
		if err := o.Expires.UnmarshalText([]byte(expires)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	of := func(origin string, verdict Action, file string) Override {
		return newOverride(t, origin, verdict, file, "")
	}
	with := func(reason, by string) Override {
		o := of("https://example.com", Allow, "")
		o.Reason, o.By = reason, by
		return o
	}
	if err := with(strings.Repeat("é", 500), strings.Repeat("é", 100)).Validate(); err != nil {
		t.Error(err)
	}
	for key, o := range map[string]Override{
		"origin: ":                  {Verdict: Allow},
		"verdict: ":                 of("https://example.com", "", ""),
		"robots_file: there":        of("https://example.com", Allow, file),
		"robots_file: open " + file: of("https://example.com", "", file),

		"reason: it has 501 characters; write 500 at most":              with(strings.Repeat("é", 501), ""),
		"by: it has 101 characters; write 100 at most":                  with("", strings.Repeat("é", 101)),
		`reason: "a\nb" has characters that can't be shown`:             with("a\nb", ""),
		`reason: "\x1b[2J" has characters that can't be shown`:          with("\x1b[2J", ""),
		`by: "\u202eadA" has characters that can't be shown; write pla`: with("", "\u202eadA"),
		`by: "\xff" has characters that can't be shown`:                 with("", "\xff"),
		"reason: it is blank; write a text, or remove the key":          with("  ", ""),
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%v, want an error about %s", err, key)
		}
	}
}

func TestExpiry(t *testing.T) {
	for text, want := range map[string]struct{ end, shown string }{
		"2026-12-31":                {"2027-01-01T00:00:00Z", "2026-12-31"},
		"2028-02-29":                {"2028-03-01T00:00:00Z", "2028-02-29"},
		"2026-12-31T18:30:00Z":      {"2026-12-31T18:30:00Z", "2026-12-31T18:30:00Z"},
		"2027-01-01T01:00:00+01:00": {"2027-01-01T00:00:00Z", "2026-12-31"},
		"2026-12-31T23:00:00-05:00": {"2027-01-01T04:00:00Z", "2027-01-01T04:00:00Z"},
	} {
		var e Expiry
		if err := e.UnmarshalText([]byte(text)); err != nil || e.Time().Format(time.RFC3339) != want.end || e.String() != want.shown {
			t.Errorf("%s ends at %v and reads %s, %v; want %v", text, e.Time(), e, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "neither a date nor a time",
		"soon":                 "neither a date nor a time",
		"31.12.2026":           "neither a date nor a time",
		"2026-02-30":           "neither a date nor a time",
		"2026-12-31 18:30":     "neither a date nor a time",
		"2026-12-31T18:30":     "neither a date nor a time",
		"0000-12-31":           "out of range",
		"0001-01-01T00:00:00Z": "out of range",
		"9999-12-31":           "out of range",
	} {
		var e Expiry
		if err := e.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !e.Time().IsZero() {
			t.Errorf("%s ends at %v, %v; want %s", text, e.Time(), err, want)
		}
	}
}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestWarning(t *testing.T) {
	const day = 24 * time.Hour
	endless := newOverride(t, "https://endless.example", Allow, "", "")
	late := newOverride(t, "https://late.example", Allow, "", "2000-01-09")
	for after, want := range map[time.Duration]string{
		0: "", 2*day - 1: "", 2 * day: "applies until 2000-01-09 only", 9*day - 1: "applies until 2000-01-09 only", 9 * day: "applied until 2000-01-09 and no longer does",
	} {
		if got := late.Warning(began.Add(after)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
		if got := endless.Warning(began.Add(after)); got != "" {
			t.Errorf("without an end: %s", got)
		}
	}
}

func TestFor(t *testing.T) {
	list := List{
		newOverride(t, "https://www.example.com", Disallow, "", "2000-01-01"),
		newOverride(t, "https://*.example.com", Allow, "", ""),
		newOverride(t, "https://closed.example.com", Disallow, "", ""),
	}
	for _, test := range []struct {
		origin string
		after  time.Duration
		want   int // its index; -1 for none
	}{
		{"https://www.example.com", 24*time.Hour - 1, 0},
		{"https://www.example.com", 24 * time.Hour, 1},
		{"https://closed.example.com", 0, 1},
		{"https://example.org", 0, -1},
	} {
		var want *Override
		if test.want >= 0 {
			want = &list[test.want]
		}
		if got := list.For(test.origin, began.Add(test.after)); got != want {
			t.Errorf("%s after %v: %+v", test.origin, test.after, got)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-robots.txt")
	if err := os.WriteFile(file, []byte("User-agent: *\nDisallow: /a\nDisallow: /bcd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := List{newOverride(t, "https://a.example", Allow, "", ""), newOverride(t, "https://b.example", "", file, "")}
	loaded, err := list.Load(30) // half of the last line, which is dropped
	if err != nil {
		t.Fatal(err)
	}
	if list[1].File() != nil || loaded[0].File() != nil {
		t.Error("the list itself was changed, or there is a file where none is named")
	}
	group, _ := loaded[1].File().Group([]string{"any"})
	for path, want := range map[string]bool{"/a": true, "/bcd": false, "/b": false} {
		if _, matches := group.Match(path); matches != want {
			t.Errorf("%s: matched %v", path, matches)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := list.Load(30); err == nil || !strings.Contains(err.Error(), "reading the robots_file of an override: open "+file) {
		t.Errorf("error %v", err)
	}
}
