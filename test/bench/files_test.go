package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A load is a robots.txt and paths to match, all generated from a fixed seed.
type load struct {
	name  string
	body  []byte
	paths []string
}

func loads() []load {
	return []load{typical(), large(), plain(), adversarial()}
}

var words = strings.Fields(`account admin ajax archive article assets author basket blog brand cart
	catalog category checkout cms collection comment compare contact content customer download
	email embed event export facet feed filter forum gallery help home image index internal item
	job journal language list login mail map media member message mobile news offer order page
	partner payment photo plugin preview price print private product profile promo public rating
	register report resource result review search section service session settings share shop
	site sort special static stats store style support tag template temp theme token topic track
	upload user vendor video view widget wishlist`)

type writer struct {
	strings.Builder
	random *rand.Rand
}

func newWriter(seed uint64) *writer {
	return &writer{random: rand.New(rand.NewPCG(seed, 9309))}
}

func (w *writer) word() string { return words[w.random.IntN(len(words))] }

// path returns a path of some depth. The number in it makes most paths differ.
func (w *writer) path(depth int) string {
	var b strings.Builder
	for range depth {
		b.WriteString("/" + w.word())
	}
	fmt.Fprintf(&b, "-%d", w.random.IntN(20000))
	return b.String()
}

// wildcard returns a pattern with wildcards, of one of the forms that real files have.
func (w *writer) wildcard() string {
	switch w.random.IntN(6) {
	case 0:
		return fmt.Sprintf("/*?%s=%s%d", w.word(), w.word(), w.random.IntN(20000))
	case 1:
		return fmt.Sprintf("/*/%s-%d/", w.word(), w.random.IntN(20000))
	case 2:
		return fmt.Sprintf("%s/*/%s", w.path(1), w.word())
	case 3:
		return fmt.Sprintf("/*%s%d.html$", w.word(), w.random.IntN(20000))
	case 4:
		return fmt.Sprintf("/%s/*&%s=%d", w.word(), w.word(), w.random.IntN(20000))
	default:
		return fmt.Sprintf("%s/*.pdf$", w.path(1))
	}
}

func (w *writer) rule(pattern string) {
	field := "Disallow"
	if w.random.IntN(5) == 0 {
		field = "Allow"
	}
	fmt.Fprintf(w, "%s: %s\n", field, pattern)
}

// urls returns paths such as a crawler of the site asks for, some of which match a rule.
func (w *writer) urls(body string) []string {
	urls := []string{"/", "/index.html", "/about/team", "/favicon.ico"}
	for range 40 {
		urls = append(urls,
			w.path(1+w.random.IntN(3)),
			fmt.Sprintf("%s/%s.html?%s=%d&%s=%s", w.path(2), w.word(), w.word(), w.random.IntN(500), w.word(), w.word()))
	}
	lines := strings.Split(body, "\n")
	for range 20 {
		_, pattern, _ := strings.Cut(lines[w.random.IntN(len(lines))], ": ")
		if strings.HasPrefix(pattern, "/") {
			pattern = strings.TrimSuffix(strings.ReplaceAll(pattern, "*", "/"+w.word()), "$")
			urls = append(urls, pattern, pattern+"/"+w.word())
		}
	}
	return urls
}

// typical is 3 KB, like the file of a shop or a newspaper: groups that disallow everything to
// a few bots, one for everyone of whose rules a quarter has wildcards, comments and sitemaps.
func typical() load {
	w := newWriter(1)
	w.WriteString("# robots.txt\n\n")
	for _, bot := range []string{"AhrefsBot", "MJ12bot", "SemrushBot", "DotBot", "PetalBot", "GPTBot"} {
		fmt.Fprintf(w, "User-agent: %s\nDisallow: /\n\n", bot)
	}
	w.WriteString("User-agent: Googlebot-Image\nUser-agent: Bingbot\nCrawl-delay: 1\n")
	for range 15 {
		w.rule("/" + w.word() + "/")
	}
	w.WriteString("\n# everyone else\nUser-agent: *\n")
	for w.Len() < 2900 {
		switch w.random.IntN(4) {
		case 0:
			w.rule("/*?" + w.word() + "=")
		case 1:
			w.rule("/" + w.word() + "/" + w.word() + ".php")
		default:
			w.rule("/" + w.word() + "/" + w.word() + "/")
		}
	}
	w.WriteString("\nSitemap: https://www.example.com/sitemap.xml\nSitemap: https://www.example.com/news.xml\n")
	return load{"typical", []byte(w.String()), w.urls(w.String())}
}

// large is 500 KiB of 14,000 rules, half of them with wildcards.
func large() load {
	w := newWriter(2)
	w.WriteString("User-agent: *\n")
	for i := range 14000 {
		pattern := w.path(2)
		if i%2 == 0 {
			pattern = w.wildcard()
		}
		w.rule(pattern)
	}
	return load{"large", fill(w), w.urls(w.String())}
}

// plain is 500 KiB of rules without wildcards.
func plain() load {
	w := newWriter(3)
	w.WriteString("User-agent: *\n")
	for w.Len() < 500<<10 {
		w.rule(w.path(2) + "/")
	}
	return load{"plain", []byte(w.String()), w.urls(w.String())}
}

// fill pads a file to 500 KiB with comments, of which large files have many.
func fill(w *writer) []byte {
	for w.Len() < 500<<10 {
		fmt.Fprintf(w, "# %s\n", strings.Repeat("-", 76))
	}
	return []byte(w.String())
}

// adversarial is 200 patterns *a*a*a…b. A path of 2,000 letters a matches all but their last
// octet, which takes a backtracking matcher practically forever to find out.
func adversarial() load {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := range 200 {
		fmt.Fprintf(&b, "Disallow: /%sb\n", strings.Repeat("*a", 20+i%50))
	}
	return load{"adversarial", []byte(b.String()), []string{"/" + strings.Repeat("a", 2000)}}
}
