package identity

import (
	"cmp"
	"strings"
)

// productToken is the product token (RFC 9309 2.2.1, RFC 9110 10.1.5) of a
// User-Agent; "*" if it names no bot. It is at most 64 octets long, and only the first 1,024
// octets of the User-Agent are read.
//
// Most bots begin with their name. Those that begin with Mozilla/ or another word of a browser
// borrow that browser's User-Agent: see borrowedName. A browser has no name.
func productToken(userAgent string) string {
	userAgent = strings.TrimSpace(userAgent[:min(len(userAgent), maxUserAgent)])
	name := strings.TrimRight(leadingWord(userAgent), "+")
	if isWordOf(browsers, name) {
		name = borrowedName(userAgent)
	}
	if name == "" || len(name) > maxToken {
		return "*"
	}
	return name
}

const (
	maxUserAgent = 1024
	maxToken     = 64
	maxItems     = 64 // of a User-Agent
)

// leadingWord is the first word of a User-Agent, up to a character that no token holds; of
// "Yahoo! Slurp" the second word.
func leadingWord(userAgent string) string {
	for {
		end := strings.IndexAny(userAgent, "/ \t;(,")
		if end < 0 {
			return userAgent
		}
		if !strings.HasSuffix(userAgent[:end], "!") || userAgent[end] != ' ' {
			return userAgent[:end]
		}
		userAgent = strings.TrimLeft(userAgent[end:], " ")
	}
}

// borrowedName is the name that a bot has written into a browser's User-Agent. It is the one
// after "compatible;", unless that is a browser's. Otherwise it is the first of these:
//
//   - in a comment, a name that holds bot, crawl or spider, or that a +URL follows;
//   - after "(KHTML, like Gecko;", any name;
//   - outside comments, any name, as in "… Safari/537.36 BingPreview/1.0b".
//
// Words of browsers and systems are no names. HeadlessChrome is one only if there is no other.
func borrowedName(userAgent string) string {
	var room [maxItems]item
	items := appendItems(room[:0], userAgent)
	first, headless := "", ""
	compatible := false // the next name follows "compatible;"
	for i, item := range items {
		name := item.name()
		switch {
		case strings.EqualFold(item.text, "compatible"):
			compatible = true
		case isWordOf(browsers, name):
			compatible = false
		case !isName(name):
		case compatible:
			return name
		case first != "" || !hasLetter(name):
		case strings.EqualFold(name, "HeadlessChrome"):
			headless = name
		case !item.comment, item.afterEngine, holdsBot(name), isLink(item.afterName()), i+1 < len(items) && isLink(items[i+1].text):
			first = name
		}
	}
	return cmp.Or(first, headless)
}

// item is a product of a User-Agent, or a part of one of its comments.
type item struct {
	text        string
	comment     bool
	afterEngine bool // in a comment that begins "KHTML, like Gecko"
}

// appendItems appends the items of a User-Agent in order, until the capacity of items is full.
func appendItems(items []item, userAgent string) []item {
	depth, start, afterEngine := 0, 0, false
	for i := 0; i <= len(userAgent) && len(items) < cap(items); i++ {
		c := byte(')')
		if i < len(userAgent) {
			c = userAgent[i]
		}
		if c != '(' && c != ')' && c != ';' && (c != ' ' || depth > 0) {
			continue
		}
		if text := strings.TrimSpace(userAgent[start:i]); text != "" {
			items = append(items, item{text, depth > 0, afterEngine})
			afterEngine = afterEngine || depth > 0 && strings.HasPrefix(text, "KHTML")
		}
		start = i + 1
		switch c {
		case '(':
			depth, afterEngine = depth+1, false
		case ')':
			depth, afterEngine = max(depth-1, 0), false
		}
	}
	return items
}

const nameEnd = "/ ,"

// name is the first word of an item; of "Yahoo! Slurp" the second one.
func (it item) name() string {
	name, _ := it.cut()
	return name
}

// afterName is what follows the first space after the name.
func (it item) afterName() string {
	_, rest := it.cut()
	_, after, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(after)
}

func (it item) cut() (name, rest string) {
	rest = it.text
	for {
		end := strings.IndexAny(rest, nameEnd)
		if end < 0 {
			return rest, ""
		}
		if name = rest[:end]; !strings.HasSuffix(name, "!") || rest[end] != ' ' {
			return name, rest[end:]
		}
		rest = strings.TrimLeft(rest[end:], " ")
	}
}

// isName tells a name from a system's word, a link, a mail address, a version and a language.
func isName(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') && s[i] < 0x80 && strings.IndexByte("-._~", s[i]) < 0 {
			return false
		}
	}
	isLanguage := len(s) <= 2 || len(s) == 5 && (s[2] == '-' || s[2] == '_')
	return len(s) <= maxToken && !isLanguage && (hasLetter(s) || !strings.Contains(s, ".")) && !isWordOf(systems, s)
}

func hasLetter(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' })
}

func holdsBot(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "bot") || strings.Contains(name, "crawl") || strings.Contains(name, "spider")
}

func isLink(s string) bool {
	return strings.HasPrefix(s, "+") && strings.ContainsAny(s, ":.")
}

// browsers and systems are words, in lower case, of the User-Agents of browsers. The lists need
// not be complete: a browser that is taken by its name is judged by everyone's group all the
// same, unless a robots.txt names it.
var (
	browsers = wordSet(`
		mozilla applewebkit khtml gecko safari mobilesafari chrome chromium crios crmo firefox fxios seamonkey iceweasel icecat waterfox palemoon goanna camino netscape navigator msie trident iemobile
		edge edg edga edgios opera opr opt opios opx presto oprgx vivaldi brave yabrowser yowser samsungbrowser silk
		silk-accelerated ucbrowser ucweb qqbrowser mqqbrowser micromessenger miuibrowser huaweibrowser heytapbrowser
		vivobrowser oculusbrowser sogoumobilebrowser metasr lbbrowser 2345explorer maxthon whale duckduckgo ddg gsa
		puffin konqueror epiphany falkon qupzilla midori qutebrowser qtwebengine kindle
		electron cfnetwork darwin up.browser netfront blackberry playbook`)
	systems = wordSet(`
		windows winnt win32 win64 win98 win95 wow64 x64 x86 x86_64 i386 i586 i686 amd64 arm arm64 aarch64 armv7l linux
		x11 unix bsd freebsd openbsd netbsd sunos solaris ubuntu debian fedora gentoo centos suse cros wayland tizen
		webos web0s android harmonyos kaios mac macintosh macos intel ppc iphone ipad ipod cpu microsoft symbian symbianos
		playstation xbox nintendo smart-tv tablet touch build compatible like version mobile tv
		webview wv nettype language profile configuration focus klar rv net .net sv1 usa unknown cubot`)
)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func isWordOf(set map[string]bool, name string) bool {
	var lower [maxToken]byte
	if len(name) > len(lower) {
		return false
	}
	for i := range len(name) {
		lower[i] = name[i]
		if 'A' <= name[i] && name[i] <= 'Z' {
			lower[i] |= 0x20
		}
	}
	return set[string(lower[:len(name)])]
}
