package preference

import (
	"strings"

	"github.com/dunglas/httpsfv"

	"robotsproxy/robots/pattern"
)

// A category is what a statement has one value of.
type category uint8

const (
	search category = iota
	aiInput
	aiTrain
	contentUse
)

// The values of a category. The greater one is the more restrictive. They are the ranks of
// patterns, so that of lines with paths of equal length the most restrictive decides.
const (
	unstated  pattern.Rank = iota
	yes                    // of contentUse: full
	no                     // of contentUse: reference
	immediate              // of contentUse alone

	full, reference = yes, no
)

// A statement is what one line says: a value for each category, in two bits each.
type statement uint8

func (s statement) value(c category) pattern.Rank { return pattern.Rank(s >> (2 * c) & 3) }

// restrict states a value of a category, unless a more restrictive one is stated already.
func (s *statement) restrict(c category, value pattern.Rank) {
	if value > s.value(c) {
		*s = *s&^(3<<(2*c)) | statement(value)<<(2*c)
	}
}

// readSignal reads the preferences of a Content-Signal: key=value, separated by commas. Case
// does not matter, nor do spaces. It ignores keys and values that it does not know. Of a key
// that is there twice, the most restrictive value counts.
func readSignal(text string) (s statement) {
	for more := true; more; {
		var pair string
		pair, text, more = strings.Cut(text, ",")
		key, value, _ := strings.Cut(pair, "=")
		key, value = strings.Trim(key, white), strings.Trim(value, white)
		for _, word := range signalWords {
			if strings.EqualFold(key, word.key) && strings.EqualFold(value, word.value) {
				s.restrict(word.category, word.means)
			}
		}
	}
	return s
}

var signalWords = []struct {
	key, value string
	category   category
	means      pattern.Rank
}{
	{"search", "yes", search, yes},
	{"search", "no", search, no},
	{"ai-input", "yes", aiInput, yes},
	{"ai-input", "no", aiInput, no},
	{"ai-train", "yes", aiTrain, yes},
	{"ai-train", "no", aiTrain, no},
	{"use", string(Full), contentUse, full},
	{"use", string(Reference), contentUse, reference},
	{"use", string(Immediate), contentUse, immediate},
}

// readUsage reads the preferences of a Content-Usage: a Dictionary of Structured Fields
// (RFC 9651 3.2), in which the tokens y and n count. Other values state nothing, and
// parameters change nothing. Of a key that is there twice, the last one counts. It returns
// false if the texts, joined by commas, are no Dictionary, for instance since a key has a
// capital letter.
func readUsage(texts ...string) (s statement, ok bool) {
	members, err := httpsfv.UnmarshalDictionary(texts)
	if err != nil {
		return 0, false
	}
	for _, label := range usageLabels {
		member, _ := members.Get(label.key)
		item, _ := member.(httpsfv.Item)
		switch item.Value {
		case httpsfv.Token("y"):
			s.restrict(label.category, yes)
		case httpsfv.Token("n"):
			s.restrict(label.category, no)
		}
	}
	return s, true
}

var usageLabels = []struct {
	key      string
	category category
}{
	{"search", search},
	{"ai-use", aiInput},
	{"train-ai", aiTrain},
}
