package keyerr

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

func TestErrorsKeepTheirKeys(t *testing.T) {
	err := In("identities[1]", errors.Join(
		New("name", "%q: it is taken", "a: b"),
		errors.Join(Wrap("match.users[0]", fs.ErrNotExist), nil),
		Wrap("from", nil),
		errors.New("this is no section: it is a list"),
	))
	type fault struct{ key, message string }
	var got []fault
	for _, e := range All(err) {
		got = append(got, fault{e.Key, e.Err.Error()})
	}
	want := []fault{
		{"identities[1].name", `"a: b": it is taken`},
		{"identities[1].match.users[0]", "file does not exist"},
		{"identities[1]", "this is no section: it is a list"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	if text := All(err)[0].Error(); text != `identities[1].name: "a: b": it is taken` {
		t.Errorf("it reads %q", text)
	}
}

func TestNoErrorStaysNone(t *testing.T) {
	if err := In("pace", errors.Join(nil, Wrap("max_wait", nil))); err != nil || All(nil) != nil {
		t.Errorf("got %v", err)
	}
}
