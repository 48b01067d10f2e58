package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// A field is a key of a section. Its option is what the struct tag says after the comma.
type field struct {
	key, option string
	value       reflect.Value
}

// fields returns the keys of a section, those of inlined structs included.
func fields(v reflect.Value) []field {
	var all []field
	for i := range v.NumField() {
		key, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if option == "inline" {
			all = append(all, fields(v.Field(i))...)
		} else if key != "" && key != "-" {
			all = append(all, field{key, option, v.Field(i)})
		}
	}
	return all
}

// isScalar reports whether the file has v as a single value.
func isScalar(v reflect.Value) bool {
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}
	return v.Kind() != reflect.Struct && v.Kind() != reflect.Map && v.Kind() != reflect.Slice
}

// suggest names the known key that is nearest to name, if one is near enough.
func suggest(name string, known []field) string {
	best, least := "", 3
	for _, f := range known {
		if d := distance(name, f.key); d < least && 2*d < len(f.key) {
			best, least = f.key, d
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
