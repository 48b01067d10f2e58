package strictyaml

import (
	"encoding"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"robotsproxy/internal/enum"
)

// Schema returns a JSON Schema (draft 7) of the files that can be read into a struct of v's type. It
// accepts every valid file, and refuses unknown keys and values of a wrong form. describe
// returns the description of a key path; "" if there is none.
func Schema(v any, describe func(path string) string) map[string]any {
	schema := sectionSchema(reflect.New(reflect.TypeOf(v)).Elem(), "", describe)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	return schema
}

func sectionSchema(v reflect.Value, path string, describe func(string) string) map[string]any {
	properties := map[string]any{}
	for _, key := range keysOf(v, path) {
		property := valueSchema(key.Value, key.option, key.Path, describe)
		if text := describe(key.Path); text != "" {
			property["description"] = text
		}
		properties[strings.TrimPrefix(key.Path, path+".")] = property
	}
	return map[string]any{
		"type":                 []string{"object", "null"}, // null: all its keys are commented out
		"additionalProperties": false,
		"properties":           properties,
	}
}

func valueSchema(v reflect.Value, option, path string, describe func(string) string) map[string]any {
	element := func() map[string]any {
		return valueSchema(reflect.New(v.Type().Elem()).Elem(), option, path+"[]", describe)
	}
	switch {
	case isScalar(v):
		return scalarSchema(v, option)
	case v.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": element()}
	case v.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": element()}
	}
	return sectionSchema(v, path, describe)
}

// scalarSchema is that of a single value, for which any text with an environment variable can
// stand.
func scalarSchema(v reflect.Value, option string) map[string]any {
	text := func(pattern string) map[string]any {
		return map[string]any{"type": "string", "pattern": "^(" + pattern + `)$|\$\{`}
	}
	anyOf := func(forms ...map[string]any) map[string]any { return map[string]any{"anyOf": forms} }
	switch v.Addr().Interface().(type) {
	case *time.Duration:
		duration := text(`\+?([0-9]*\.?[0-9]+(d|h|m|s|ms|us|µs|μs|ns))+`)
		if option == "zero" {
			return anyOf(duration, map[string]any{"enum": []any{0, "0"}})
		}
		return duration
	case *netip.Prefix:
		return map[string]any{"type": "string"}
	case encoding.TextUnmarshaler:
		if words := wordsOf(v.Type()); words != nil {
			return anyOf(map[string]any{"enum": words}, text(inAnyCase(words)))
		}
		return map[string]any{"type": []string{"string", "integer"}}
	}
	switch {
	case v.Kind() == reflect.Bool:
		words := []string{}
		for word := range booleans {
			words = append(words, word)
		}
		return anyOf(map[string]any{"type": "boolean"}, text(inAnyCase(words)))
	case option == "size":
		return anyOf(map[string]any{"type": "integer", "minimum": 0}, text("[0-9]+ *([kKmMgG][iI]?[bB])?"))
	case v.CanInt():
		return anyOf(map[string]any{"type": "integer"}, text("[+-]?[0-9]+"))
	}
	return map[string]any{"type": "string"}
}

// wordsOf returns the words that an enumeration can be; nil for other types.
func wordsOf(t reflect.Type) []string {
	read := func(text string) error {
		return reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	refused, ok := errors.AsType[*enum.Error](read("\x00"))
	if !ok {
		return nil
	}
	if read("") == nil {
		return append([]string{""}, refused.Words...)
	}
	return refused.Words
}

// inAnyCase returns a regular expression of the words in upper and lower case.
func inAnyCase(words []string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range word {
			if upper := strings.ToUpper(string(r)); upper != string(r) {
				b.WriteString("[" + string(r) + upper + "]")
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
