package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// A Key is a key of a struct.
type Key struct {
	Path  string // as in "log.level"
	Value reflect.Value

	option string // what the tag says after the comma
}

// IsSection reports whether the key's value is a struct with keys of its own.
func (k Key) IsSection() bool { return k.Value.Kind() == reflect.Struct && !isScalar(k.Value) }

// Keys returns the keys of the struct v, those of inlined structs included, but not those of
// its sections.
func Keys(v any) []Key { return keysOf(reflect.ValueOf(v), "") }

// AllKeys returns the keys of the struct v and of the sections in it, at any depth. A section
// comes before its keys.
func AllKeys(v any) []Key { return allKeysOf(reflect.ValueOf(v), "") }

func allKeysOf(v reflect.Value, section string) []Key {
	var all []Key
	for _, key := range keysOf(v, section) {
		all = append(all, key)
		if key.IsSection() {
			all = append(all, allKeysOf(key.Value, key.Path)...)
		}
	}
	return all
}

func keysOf(v reflect.Value, section string) []Key {
	var all []Key
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if option == "inline" {
			all = append(all, keysOf(v.Field(i), section)...)
		} else if name != "" && name != "-" {
			all = append(all, Key{join(section, name), v.Field(i), option})
		}
	}
	return all
}

func join(section, name string) string {
	return strings.TrimPrefix(section+"."+name, ".")
}

// isScalar reports whether the file has v as a single value.
func isScalar(v reflect.Value) bool {
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	return v.Kind() != reflect.Struct && v.Kind() != reflect.Map && v.Kind() != reflect.Slice
}

// suggest names the known key of a section that is nearest to name, if one is near enough.
func suggest(name, section string, known []Key) string {
	best, least := "", 3
	for _, key := range known {
		candidate := strings.TrimPrefix(key.Path, section+".")
		if d := distance(name, candidate); d < least && 2*d < len(candidate) {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is the Levenshtein distance, in octets.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
