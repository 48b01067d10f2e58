package tdmrep

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What a file says of some paths: "1" or "0" with the line of the rule, "-" for nothing.
func TestFileSays(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		says map[string]string
	}{
		"all reserved": {
			`[{"location": "/", "tdm-reservation": 1}]`,
			map[string]string{"/": "1:1", "/a?b": "1:1"},
		},
		"the example of the report": {
			`[
  {"location": "/directory-a/", "tdm-reservation": 1},
  {"location": "/directory-b/html/", "tdm-reservation": 1, "tdm-policy": "https://provider.com/policies/policy.json"},
  {
    "location": "/directory-b/images/*.jpg",
    "tdm-reservation": 0
  }
]`,
			map[string]string{
				"/directory-a/x.pdf": "1:2", "/directory-b/html/": "1:3", "/directory-b/images/1.jpg": "0:4",
				"/directory-b/images/1.png": "-", "/directory-a": "-", "/": "-",
			},
		},
		"the first that matches, not the longest": {
			`[{"location":"/a/","tdm-reservation":1},{"location":"/a/open/","tdm-reservation":0},{"location":"/","tdm-reservation":0}]`,
			map[string]string{"/a/open/x": "1:1", "/b": "0:1"},
		},
		"patterns": {
			"[{\"location\":\"/*.pdf$\",\"tdm-reservation\":1},\n{\"location\":\"/caf%C3%A9\",\"tdm-reservation\":1},\n{\"location\":\"*/x\",\"tdm-reservation\":1},\n{\"location\":\"/%7Eme/foo-%24\",\"tdm-reservation\":1}]",
			map[string]string{"/a/b.pdf": "1:1", "/b.pdf?x": "-", "/café": "1:2", "/caf%c3%a9": "1:2", "/y/x": "1:3", "/~me/foo-$": "1:4", "/A/B.PDF": "-"},
		},
		"values": {
			`[{"location":"/1","tdm-reservation":"1"},{"location":"/0","tdm-reservation":"0"},{"location":"/a","tdm-reservation":2},
			{"location":"/b","tdm-reservation":true},{"location":"/c","tdm-reservation":"yes"},{"location":"/d","tdm-reservation":null},
			{"location":"/e","tdm-reservation":[1]},{"location":"/f"},{"location":"/g","tdm-reservation":1.0},{"location":"/h","tdm-reservation":-1}]`,
			map[string]string{"/1": "1:1", "/0": "0:1", "/a": "-", "/b": "-", "/c": "-", "/d": "-", "/e": "-", "/f": "-", "/g": "-", "/h": "-"},
		},
		"a rule that is none leaves the path to the next": {
			`[{"location":"/a","tdm-reservation":2},{"location":"/","tdm-reservation":1}]`,
			map[string]string{"/a": "1:1"},
		},
		"locations": {
			`["/", 7, null, [], [{"location":"/","tdm-reservation":1}],
			{"location":7,"tdm-reservation":1}, {"location":["/"],"tdm-reservation":1}, {"location":"images/","tdm-reservation":1},
			{"location":"https://example.org/","tdm-reservation":1}, {"location":"$","tdm-reservation":1}]`,
			map[string]string{"/": "-", "/images/": "-", "/https://example.org/": "-"},
		},
		"no location, as some sites write it": {
			`[{"location":"/open/","tdm-reservation":0},{"tdm-reservation":1}]`,
			map[string]string{"/open/": "0:1", "/": "1:1"},
		},
		"the last of repeated members": {
			`[{"location":"/a","location":"/b","tdm-reservation":0,"tdm-reservation":1}]`,
			map[string]string{"/a": "-", "/b": "1:1"},
		},
		"names in other spellings": {
			`[{"Location":"/a","TDM-Reservation":1},{"location":"/b","tdm_reservation":1},{"location":"/c","reservation":1}]`,
			map[string]string{"/a": "1:1", "/b": "1:1", "/c": "-"},
		},
		"one rule without the array, as some sites write it": {
			"\n{\"tdm-reservation\": 1, \"policy\": {\"mining\": [\"prohibited\"]}}\n",
			map[string]string{"/": "1:2"},
		},
		"the array within an object, as some sites write it": {
			"{\"version\": 1,\n\"policies\": [\n{\"location\": \"/a\", \"tdm-reservation\": 1}], \"more\": [{\"tdm-reservation\": 0}]}",
			map[string]string{"/a": "1:3", "/": "-"},
		},
		"a byte-order mark":       {"\xEF\xBB\xBF [{\"tdm-reservation\":1}]", map[string]string{"/": "1:1"}},
		"cut off":                 {`[{"location":"/a","tdm-reservation":1},{"location":"/b","tdm-res`, map[string]string{"/a": "1:1", "/b": "-"}},
		"a comma too many":        {`[{"location":"/a","tdm-reservation":1},]`, map[string]string{"/a": "1:1", "/b": "-"}},
		"something after the end": {`[{"location":"/a","tdm-reservation":1}]<!-- 12 ms -->`, map[string]string{"/a": "1:1"}},
		"HTML":                    {"<!DOCTYPE html><title>Not found</title> [{\"tdm-reservation\":1}]", map[string]string{"/": "-"}},
		"empty":                   {"", map[string]string{"/": "-"}},
		"an empty array":          {"[]", map[string]string{"/": "-"}},
		"an empty object":         {"{}", map[string]string{"/": "-"}},
		"null":                    {"null", map[string]string{"/": "-"}},
		"a number":                {"1", map[string]string{"/": "-"}},
		"a string":                {`"tdm-reservation: 1"`, map[string]string{"/": "-"}},
	} {
		f := Parse([]byte(test.text))
		for path, want := range test.says {
			got := "-"
			if r, found := f.Match(path); found {
				got = fmt.Sprintf("0:%d", r.Line)
				if r.Reserved {
					got = fmt.Sprintf("1:%d", r.Line)
				}
			}
			if got != want {
				t.Errorf("%s: %s gets %s, want %s (%v)", name, path, got, want, f.err)
			}
		}
	}
}

func TestFaultIsTold(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "", `[{"tdm-reservation":1}]`: "", `{"tdm-reservation":1}`: "", `{"x":[]}`: "", "[7]": "",
		"": "no JSON array", "<html>": "no JSON array", "{}": "no JSON array", `{"x":{"y":[]}}`: "no JSON array",
		"[": "EOF", "[{}": "EOF", "[{]": "invalid character", `{"tdm-reservation":1`: "EOF", `{"x":[}`: "invalid character",
	} {
		if err := Parse([]byte(text)).err; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPolicyCanBeShown(t *testing.T) {
	long := "https://example.org/" + strings.Repeat("a", maxPolicy)
	for policy, want := range map[string]string{
		`"https://example.org/policy.json"`:   "https://example.org/policy.json",
		`" http://example.org/a#b "`:          "http://example.org/a#b",
		"\"https://example.org/\u202e\"":      "https://example.org/%E2%80%AE",
		`"https://example.org/\u0000"`:        "",
		`"https://example.org/café"`:          "https://example.org/caf%C3%A9",
		`"https://me:secret@example.org/"`:    "https://example.org/",
		`"javascript:alert(1)"`:               "",
		`"/policy"`:                           "",
		`"https:"`:                            "",
		`"https://exämple.org/"`:              "https://ex%C3%A4mple.org/",
		`"https://example.org/\u001b[2J"`:     "",
		`"` + long + `"`:                      "",
		`"` + long[:maxPolicy] + `"`:          long[:maxPolicy],
		`"https://` + long[28:] + `é"`:        "",
		`{"mining": "prohibited"}`:            "",
		`null`:                                "",
		`["https://example.org/"]`:            "",
		`"https://example.org/%zz"`:           "",
		`"https://example.org/a b\"<script>"`: "https://example.org/a%20b%22%3Cscript%3E",
	} {
		r, found := Parse([]byte(`[{"location":"/","tdm-reservation":1,"tdm-policy":` + policy + `}]`)).Match("/")
		if !found || !r.Reserved || r.Policy != want {
			t.Errorf("%.60s: %.60q (%v), want %.60q", policy, r.Policy, found, want)
		}
	}
}

func TestCut(t *testing.T) {
	const rules = `[{"tdm-reservation":1}]`
	for _, test := range []struct {
		body, want string
		max        int64
		fails      bool
	}{
		{rules, rules, 100, false},
		{rules, rules, int64(len(rules)), false},
		{rules, "", int64(len(rules)) - 1, true},
		{"\xEF\xBB\xBF\r\n\t {}", "\xEF\xBB\xBF\r\n\t {}", 100, false},
		{"<!DOCTYPE html>" + strings.Repeat("x", 200), "", 100, false},
		{"", "", 100, false},
		{"User-agent: *\n", "", 100, false},
	} {
		got, err := Cut([]byte(test.body), test.max)
		if string(got) != test.want || (err != nil) != test.fails {
			t.Errorf("%.20q: %q, %v", test.body, got, err)
		}
	}
}

// hostile are texts of about half a MiB that are hard on a reader.
func hostile() map[string]string {
	const size = 500 << 10
	fill := func(piece string) string { return strings.Repeat(piece, size/len(piece)) }
	array := func(element string) string { return "[" + strings.TrimSuffix(fill(element+","), ",") + "]" }
	return map[string]string{
		"deep arrays":    fill("["),
		"deep objects":   fill(`{"a":`),
		"deep in a rule": `[{"location":` + fill("["),
		"empty objects":  array("{}"),
		"short rules":    array(`{"tdm-reservation":1}`),
		"wildcards":      array(`{"location":"/*b*c","tdm-reservation":0}`),
		"a long name":    `[{"` + fill("x") + `":1}]`,
		"a long pattern": `[{"location":"/` + fill("*x") + `","tdm-reservation":1}]`,
		"escapes":        `[{"location":"/` + fill(`\u00e9`) + `","tdm-reservation":1}]`,
		"repeated names": `[{` + fill(`"location":"/a",`) + `"tdm-reservation":1}]`,
		"policies":       array(`{"tdm-reservation":1,"tdm-policy":"https://example.org/` + strings.Repeat("p", 1000) + `"}`),
		"lines":          fill("\n") + "[]",
		"arrays within":  "{" + fill(`"a":{"b":[1]},`) + `"c":1}`,
	}
}

// Reading half a MiB takes memory in proportion to it, for good and on the way.
func TestHostileFilesAreBounded(t *testing.T) {
	for name, text := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f := Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if f.Size() > 8*int64(len(text)) {
			t.Errorf("%s takes %d KiB", name, f.Size()>>10)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 100*uint64(len(text)) {
			t.Errorf("reading %s takes %d KiB", name, taken>>10)
		}
		f.Match("/" + strings.Repeat("a", 64<<10))
	}
}

// A file too costly to match reserves, on no line.
func TestGivingUpReserves(t *testing.T) {
	f := Parse([]byte(hostile()["wildcards"]))
	if r, found := f.Match("/" + strings.Repeat("a", 64<<10)); !found || r != (Rule{Reserved: true}) {
		t.Errorf("got %+v, %v", r, found)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	f := Parse([]byte(manyRules))
	for _, path := range []string{"/", "/section/7/images/a.jpg", "/a%7Eb/../c"} {
		if n := testing.AllocsPerRun(100, func() { f.Match(path) }); n > 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

var manyRules = func() string {
	var b strings.Builder
	b.WriteString("[\n")
	for i := range 200 {
		fmt.Fprintf(&b, `{"location":"/section/%d/images/*.jpg","tdm-reservation":%d,"tdm-policy":"https://example.org/policy.json"},`+"\n", i, i%2)
		fmt.Fprintf(&b, `{"location":"/section/%d/","tdm-reservation":%d},`+"\n", i, (i+1)%2)
	}
	b.WriteString(`{"location":"/","tdm-reservation":1}]`)
	return b.String()
}()

func BenchmarkMatch(b *testing.B) {
	f := Parse([]byte(manyRules))
	b.ReportAllocs()
	for b.Loop() {
		if r, found := f.Match("/section/151/images/2026/a.jpg?size=large"); !found || !r.Reserved || r.Line != 304 {
			b.Fatal(r, found)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(manyRules)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(text)
	}
}
