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

// unknown says that a section, which has the known keys, has no key of this name, and what the
// user may have meant. before is the path of the known key that the file has before it.
func (d *Decoder) unknown(name, section, before string, known []Key) string {
	message := fmt.Sprintf("unknown key %q", join(section, name))
	var homes []string
	for _, key := range allKeysOf(d.root, "") {
		if home, found := strings.CutSuffix(key.Path, "."+name); found && home != section {
			if home == before {
				return fmt.Sprintf("%s belongs under %s; indent it", name, home)
			}
			homes = append(homes, home)
		}
	}
	if meant := nearest(name, section, known); meant != "" {
		return message + "; did you mean " + meant + "?"
	}
	if len(homes) > 0 {
		return message + "; it belongs under " + strings.Join(homes, " or ")
	}
	return message
}

// nearest returns the known key of a section that is nearest to name; "" if none is near
// enough.
func nearest(name, section string, known []Key) string {
	best, least := "", 3
	for _, key := range known {
		candidate := strings.TrimPrefix(key.Path, section+".")
		if d := distance(name, candidate); d < least && 2*d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
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
