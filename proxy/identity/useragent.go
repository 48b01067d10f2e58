package identity

import "strings"

// ProductToken is the product token (RFC 9309 2.2.1, RFC 9110 10.1.5) of a
// User-Agent, "*" where it names no bot.
//
// Most bots begin with their name, up to the first character that no token holds.
// Those that begin with Mozilla/ borrow a
// browser's: theirs stands after "compatible;", or else is the first name that
// holds bot, crawl or spider or is followed by a +URL. A browser has none.
func ProductToken(userAgent string) string {
	userAgent = strings.TrimSpace(userAgent)
	name := strings.TrimRight(leadingName(userAgent, "/ \t;(,"), "+")
	if len(userAgent) >= len(mozilla) && strings.EqualFold(userAgent[:len(mozilla)], mozilla) {
		name = borrowedName(userAgent[len(mozilla):])
	}
	if name == "" {
		return "*"
	}
	return name
}

const mozilla = "Mozilla/"

func borrowedName(userAgent string) string {
	items := items(userAgent)
	for i, item := range items[:max(len(items)-1, 0)] {
		if !strings.EqualFold(item, "compatible") {
			continue
		}
		if name := leadingName(items[i+1], nameEnd); isName(name) && !strings.EqualFold(name, "MSIE") {
			return name
		}
	}
	for i, item := range items {
		name := leadingName(item, nameEnd)
		if !isName(name) || strings.EqualFold(name, "compatible") {
			continue
		}
		if _, after, _ := strings.Cut(item, " "); holdsBot(name) || isLink(strings.TrimSpace(after)) {
			return name
		}
		if i+1 < len(items) && isLink(items[i+1]) {
			return name
		}
	}
	return ""
}

// items cuts a User-Agent into its products and the items of its comments, in
// the order in which they stand.
func items(userAgent string) []string {
	var all []string
	depth, start := 0, 0
	for i, c := range userAgent + ")" {
		switch {
		case c == '(', c == ')', c == ';', c == ' ' && depth == 0:
			if item := strings.TrimSpace(userAgent[start:i]); item != "" {
				all = append(all, item)
			}
			start = i + 1
			if c == '(' {
				depth++
			} else if c == ')' && depth > 0 {
				depth--
			}
		}
	}
	return all
}

const nameEnd = "/ ,"

func leadingName(s, end string) string {
	if i := strings.IndexAny(s, end); i >= 0 {
		return s[:i]
	}
	return s
}

// isName tells a name from a link, a mail address and a bare version.
func isName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "+@:") && strings.ContainsFunc(s, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	})
}

func holdsBot(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "bot") || strings.Contains(name, "crawl") || strings.Contains(name, "spider")
}

func isLink(s string) bool {
	return strings.HasPrefix(s, "+") && strings.ContainsAny(s, ":.")
}
