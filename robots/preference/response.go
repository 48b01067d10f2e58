package preference

import "strings"

// OfResponse returns the field of a response that refuses a use; false if none does. header
// has the fields by their canonical names, as [net/http.Header] does. These count:
//
//   - Content-Usage (draft-ietf-aipref-attach), all its lines together
//   - Tdm-Reservation: 1 refuses ai-input and ai-train
//   - X-Robots-Tag: noai and noimageai refuse ai-train, to all or to one of the product
//     tokens. A bot's name before a colon is that of the bot which the rest of the line
//     concerns.
func OfResponse(header map[string][]string, tokens []string, use Use) (Refusal, bool) {
	if said, ok := usageOf(header["Content-Usage"]); ok {
		for i := range questions {
			q := &questions[i]
			if q.source == ContentUsage && q.concerns(use, ContentUsage.bit()) && q.refusedBy(said.value(q.category)) {
				return ofField("content-usage", q.words[no]), true
			}
		}
	}
	if reserved, _ := Reservation(header); reserved && use.Mines() {
		return ofField("tdm-reservation", "1"), true
	}
	if use.Purposes.Has(AITrain) {
		for _, line := range header["X-Robots-Tag"] {
			if directive := noAI(line, tokens); directive != "" {
				return ofField("x-robots-tag", directive), true
			}
		}
	}
	return Refusal{}, false
}

func ofField(name, value string) Refusal {
	return Refusal{Source: Response, Preference: name + ": " + value}
}

// Mines reports whether a reservation of text and data mining concerns the use.
func (u Use) Mines() bool { return u.Purposes.Has(AIInput) || u.Purposes.Has(AITrain) }

// Reservation returns what the field Tdm-Reservation of a response says: the right to mine it
// is reserved if any value is 1, and not reserved if one is 0. Other values state nothing.
func Reservation(header map[string][]string) (reserved, stated bool) {
	for _, line := range header["Tdm-Reservation"] {
		for value := range strings.SplitSeq(line, ",") {
			switch strings.Trim(value, white) {
			case "1":
				return true, true
			case "0":
				stated = true
			}
		}
	}
	return false, stated
}

func usageOf(lines []string) (statement, bool) {
	if len(lines) == 0 {
		return 0, false
	}
	return readUsage(strings.Join(lines, ", "))
}

// noAI returns the directive in a line of X-Robots-Tag that asks bots with these product tokens
// not to train; "" if none does.
func noAI(line string, tokens []string) string {
	concerned := true
	for item := range strings.SplitSeq(line, ",") {
		name, rest, named := strings.Cut(item, ":")
		if name = strings.Trim(name, white); named && isBot(name) {
			concerned, item = isOneOf(name, tokens), rest
		}
		for _, directive := range []string{"noai", "noimageai"} {
			if concerned && strings.EqualFold(strings.Trim(item, white), directive) {
				return directive
			}
		}
	}
	return ""
}

// isBot reports whether what stands before a colon names a bot. It does not if it is a
// directive with a value, or a part of a date.
func isBot(name string) bool {
	switch strings.ToLower(name) {
	case "", "max-snippet", "max-image-preview", "max-video-preview", "unavailable_after":
		return false
	}
	return !strings.ContainsAny(name, white)
}

func isOneOf(name string, tokens []string) bool {
	name, _, _ = strings.Cut(name, "/") // of a version
	for _, token := range tokens {
		if strings.EqualFold(name, token) {
			return true
		}
	}
	return name == "*"
}
