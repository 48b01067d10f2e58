// Package enum reads the settings whose value is one of a few words.
package enum

import (
	"fmt"
	"slices"
	"strings"
)

// Unmarshal sets target to the one of words that text is, in upper or lower case. Any other
// text leaves target as it is, and the error lists the words, so that a user sees what to
// write instead. It is the body of an [encoding.TextUnmarshaler].
func Unmarshal[T ~string](target *T, text []byte, words ...T) error {
	i := slices.IndexFunc(words, func(word T) bool { return strings.EqualFold(string(word), string(text)) })
	if i < 0 {
		return &Error{string(text), list(words)}
	}
	*target = words[i]
	return nil
}

// Error says that a text is none of the words.
type Error struct {
	Text  string
	Words []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%q is none of %s", e.Text, strings.Join(e.Words, ", "))
}

func list[T ~string](words []T) []string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = string(word)
	}
	return texts
}
