package config

import (
	"encoding/json"
	"strings"
	"testing"

	"robotsproxy/config/strictyaml"
)

// The schema has every key that a file may have, where the file has it, with a description.
func TestSchemaHasEveryKey(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	type section struct {
		Description string
		Properties  map[string]json.RawMessage
		AnyOf       []struct{ Enum []any }
	}
	find := func(path string) (found section, ok bool) {
		at := text
		for name := range strings.SplitSeq(path, ".") {
			var above section
			if err := json.Unmarshal(at, &above); err != nil {
				t.Fatal(err)
			}
			if at, ok = above.Properties[name]; !ok {
				return section{}, false
			}
		}
		if err := json.Unmarshal(at, &found); err != nil {
			t.Fatal(err)
		}
		return found, true
	}
	for _, key := range strictyaml.AllKeys(Default()) {
		found, ok := find(key.Path)
		if !ok {
			t.Errorf("%s is not in the schema", key.Path)
		} else if found.Description == "" && !key.IsSection() {
			t.Errorf("%s has no description", key.Path)
		}
	}
	if mode, _ := find("https.mode"); len(mode.AnyOf) == 0 || len(mode.AnyOf[0].Enum) != 3 || !strings.Contains(mode.Description, "when_needed: read only") {
		t.Errorf("https.mode: %+v", mode)
	}
	if first, _ := find("pace.back_off.first"); !strings.Contains(first.Description, "failures in a row") {
		t.Errorf("pace.back_off.first: %+v", first)
	}
}
