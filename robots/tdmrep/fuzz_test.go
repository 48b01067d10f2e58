package tdmrep

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"robotsproxy/robots/pattern"
)

// FuzzParse compares files that are as the report wants them with a reader of a few lines,
// which tries each location by itself, and holds all files to what Parse and Match promise.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`[{"location":"/a/*.jpg$","tdm-reservation":1,"tdm-policy":"https://example.org/"},{"location":"/","tdm-reservation":0}]`,
		`{"tdm-reservation":1}`, `{"x":[{"location":"*","tdm-reservation":"0"}]}`, "\xEF\xBB\xBF[\n{}", "<html>", `[{"location":"/%7e%2A","tdm-reservation":1}]`,
		`[{"location":"","tdm-reservation":1,"tdm-policy":"javascript:x"}]`, `[[[[`, `[{"location":null,"tdm_reservation":1},]`,
	} {
		f.Add([]byte(text), "/a/b.jpg?c")
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		path = "/" + path
		before := bytes.Clone(text)
		file := Parse(text)
		got, found := file.Match(path)
		if !bytes.Equal(text, before) {
			t.Fatal("the text was changed")
		}
		if found && got.Line == 0 && got != (Rule{Reserved: true}) {
			t.Fatalf("gave up with %+v", got)
		}
		if got.Line > 1+bytes.Count(text, []byte("\n")) {
			t.Fatalf("%+v is on a line that is not there", got)
		}
		if len(got.Policy) > maxPolicy || got.Policy != "" && !strings.HasPrefix(got.Policy, "http") || strings.ContainsFunc(got.Policy, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("policy %q", got.Policy)
		}
		if again, foundAgain := Parse(text).Match(path); again != got || foundAgain != found {
			t.Fatalf("%+v and then %+v", got, again)
		}
		kept, err := Cut(text, int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		if of := Parse(kept); of.Len() != file.Len() || !reflect.DeepEqual(of.rules, file.rules) {
			t.Fatalf("what Cut returns has %d rules of %d", of.Len(), file.Len())
		}
		if got.Line == 0 && found {
			return // too costly
		}
		if want, comparable := plain(text, path); comparable && (found != (want >= 0) || found && got.Reserved != (want == 1)) {
			t.Fatalf("%q gets %+v (%v), want %d", path, got, found, want)
		}
	})
}

// plain is what a well-formed file says of a path: 1, 0, or -1 for nothing. It returns false
// for files that are not as the report wants them.
func plain(text []byte, path string) (says int, comparable bool) {
	var rules []map[string]json.RawMessage
	if json.Unmarshal(text, &rules) != nil {
		return 0, false
	}
	values := map[string]int{"0": 0, "1": 1}
	says = -1
	for _, r := range rules {
		var location string
		reserved, known := values[string(r["tdm-reservation"])]
		if len(r) != 2 || !known || r["location"] == nil || json.Unmarshal(r["location"], &location) != nil {
			return 0, false
		}
		if says >= 0 {
			continue
		}
		builder := pattern.NewBuilder(1, 0)
		builder.Section()
		builder.Add(pattern.Pattern{Text: location, Line: 1})
		sets, _ := builder.Sets([][]int32{{0}})
		if p, matches := sets[0].Match(path); matches && p.Line > 0 {
			says = reserved
		}
	}
	return says, true
}
