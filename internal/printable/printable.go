// Package printable makes text that a site or a client wrote safe to show: it
// cannot command a terminal, hide characters, or turn the order of what is around it.
package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text on one line. What has no picture of its own is escaped as Go
// writes it in a string (`\x1b`, `\u202e`): control characters, format characters
// such as the bidirectional ones, line separators, private and unassigned
// characters, and octets that are no UTF-8. Backslashes stay as they are: the
// result is to be read, not to be decoded.
func Line(text string) string { return escape(text, "") }

// Text is [Line] for text of several lines: line feeds and tabs stay.
func Text(text string) string { return escape(text, "\n\t") }

func escape(text, kept string) string {
	hidden := func(r rune) bool { return !unicode.IsGraphic(r) && !strings.ContainsRune(kept, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !hidden(r):
			b.WriteString(text[:size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r <= unicode.MaxASCII:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xFFFF:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// Cut returns text, or the characters that begin it within max octets and "…" in
// place of the others.
func Cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max] + "…"
}

// Marshal returns v as one line of [JSON].
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return JSON(b.Bytes()), err
}

// JSON returns the same JSON with the characters escaped that [Line] would escape
// (RFC 8259 section 7), so that a terminal may show it and a program still reads
// every character. text must be valid, as an encoder writes it. The result may
// share its memory.
func JSON(text []byte) []byte {
	at := hiddenInJSON(text)
	if at == len(text) {
		return text
	}
	escaped := make([]byte, 0, len(text)+64)
	for {
		escaped, text = append(escaped, text[:at]...), text[at:]
		if len(text) == 0 {
			return escaped
		}
		r, size := utf8.DecodeRune(text)
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		} else {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		text = text[size:]
		at = hiddenInJSON(text)
	}
}

// hiddenInJSON is where the first character stands that is to be escaped, or the
// length of text. Encoders escape control characters below U+0020 in strings;
// elsewhere these are layout.
func hiddenInJSON(text []byte) int {
	for i := 0; i < len(text); {
		if text[i] < 0x7F {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if !unicode.IsGraphic(r) {
			return i
		}
		i += size
	}
	return len(text)
}
