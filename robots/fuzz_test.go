package robots

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"robotsproxy/internal/conformancetest"
	"robotsproxy/internal/hostname"
	"robotsproxy/robots/preference"
	"robotsproxy/robots/urlpath"
)

// seeds returns the bodies of testdata, and some of real sites if the folder has them.
func seeds(f *testing.F) []string {
	var all []string
	for _, archive := range verdictFiles(f) {
		all = append(all, string(archive.Files[0].Data))
	}
	all = append(all,
		"\xEF\xBBUser-agent: *\rDisallow: /a\r\nAllow: /a/*$\n\rDisallow: /\x00x\nallow: /%2A%24%zz%",
		"user-agent:a\nuser-agent:*\ndisallow:/*?\nuser-agent:b\nallow:*\ndisallow:**$\n",
		"User-agent: *\nDisallow: /\nAllow: /\n", "UserAgent \xff\nAllow *0\n", "User-agent: *\nDisallow: *\n", "User-agent: *\nAllow: /\nDisallow: /*\n")
	if conformancetest.Folder() != "" {
		i := 0
		for _, body := range conformancetest.RealSites(f) {
			if i++; i%40 == 0 && len(body) < 3000 {
				all = append(all, string(body))
			}
		}
	}
	return all
}

var seedPaths = []string{
	"/", "/a", "/a/b.php?x=1", "/~user/%7Euser/", "/a/../b/./c/%2e%2E/", "/shop/open?sort=1&page=2",
	"/%2A*%24$%zz%4", "", "?q", "//a//", "/\xff\x00é |", "/.a/..b/...", "/a/..?/../",
}

// FuzzMatch compares the matcher with the reference, and the extent with the verdict, for every
// name in the file and one that is not in it.
func FuzzMatch(f *testing.F) {
	for i, body := range seeds(f) {
		f.Add(body, seedPaths[i%len(seedPaths)])
	}
	for _, path := range seedPaths {
		f.Add("User-agent: *\nDisallow: /*a\nDisallow: /~user\nAllow: /$\nDisallow: /%2A*%24\n", path)
	}
	f.Fuzz(func(t *testing.T, body, path string) {
		if len(body) > 1<<14 || len(path) > 1<<10 {
			t.Skip("the reference is slow")
		}
		file, reference := Parse([]byte(body)), referenceParse(body)
		names := map[string]bool{"nobody-of-this-name": true}
		for _, group := range file.groups {
			names[group.name] = true
		}
		for name := range names {
			checkAgainst(t, file, reference, name, path)
			checkAgainst(t, file, reference, name, urlpath.AsServed(path))
		}
	})
}

func checkAgainst(t *testing.T, file *File, reference *referenceFile, name, path string) {
	t.Helper()
	want, hasGroup := reference.verdict(name, path)
	group, token := file.Group([]string{name})
	if (group != nil) != hasGroup {
		t.Fatalf("%q: group is %v (by %q), the reference says %v", name, group, token, hasGroup)
	}
	if group == nil {
		return
	}
	got, matches := group.Match(path)
	if matches && got == (Rule{}) && group.Extent() != Everything {
		return // the search gave up
	}
	if matches != (want != nil) || matches && got != *want {
		t.Fatalf("%q at %q: %+v (%v), the reference says %+v", name, path, got, matches, want)
	}
	allowed := !matches || got.Allow
	if e := group.Extent(); e == Everything && !allowed || e == Nothing && allowed {
		t.Fatalf("%q: extent is %v, but the verdict on %q is %v by %+v", name, e, path, allowed, got)
	}
}

// FuzzSpelling writes one path in two ways and checks that the same rule decides.
func FuzzSpelling(f *testing.F) {
	for i, body := range seeds(f) {
		f.Add(body, seedPaths[i%len(seedPaths)], uint64(i))
	}
	f.Fuzz(func(t *testing.T, body, path string, seed uint64) {
		other := respell(path, rand.New(rand.NewPCG(seed, 0)))
		file := Parse([]byte(body))
		for i := range file.groups {
			group := &file.groups[i]
			a, _ := group.Match(path)
			b, _ := group.Match(other)
			if a != b {
				t.Fatalf("%q meets %+v, but %q meets %+v", path, a, other, b)
			}
		}
		a, b := Target{Path: path}, Target{Path: other}
		if a.IsRobotsTxt() != b.IsRobotsTxt() {
			t.Fatalf("one of %q and %q is robots.txt", path, other)
		}
	})
}

// respell returns an equivalent spelling of a path (RFC 3986 6.2.2).
func respell(path string, random *rand.Rand) string {
	var b strings.Builder
	query := false
	for i := 0; i < len(path); i++ {
		c := path[i]
		octet, escaped := urlpath.Unescape(path[i:])
		escaped = escaped && c == '%'
		switch coin := random.IntN(2) == 0; {
		case escaped && unreserved(octet):
			b.WriteByte(octet)
			i += 2
		case escaped:
			b.WriteString([]string{strings.ToUpper(path[i : i+3]), strings.ToLower(path[i : i+3])}[random.IntN(2)])
			i += 2
		case c == '%':
			// What follows a stray % stays as it is: it could be read as its hex digits.
			return b.String() + path[i:]
		case coin && (unreserved(c) || c != '*' && !referenceStatic.MatchString(string(rune(c)))):
			fmt.Fprintf(&b, "%%%02x", c)
		case coin && c == '/' && !query && i > 0:
			b.WriteString([]string{"/./", "/x/../", "/%2e/", "/y/%2E./"}[random.IntN(4)])
		default:
			query = query || c == '?'
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unreserved reports whether an octet means the same as its %XX (RFC 3986 2.3).
func unreserved(c byte) bool { return regexp.MustCompile(`[A-Za-z0-9._~-]`).Match([]byte{c}) }

// FuzzCut checks that the lines of a cut file are those that the whole one begins with.
func FuzzCut(f *testing.F) {
	for i, body := range seeds(f) {
		f.Add(body, int64(i*37%max(1, len(body))))
	}
	f.Fuzz(func(t *testing.T, body string, max int64) {
		if max < 0 || max >= int64(len(body)) {
			t.Skip("nothing is cut")
		}
		whole := stated(body)
		cut := stated(string(Cut([]byte(body)[:max+1], max)))
		if len(cut) > len(whole) || !slices.Equal(whole[:len(cut)], cut) {
			t.Errorf("cut at %d: %v; whole: %v", max, cut, whole)
		}
	})
}

type statement struct {
	line  int
	field field
	value string
}

// stated is what the lines of a file say, without those that say nothing.
func stated(body string) (all []statement) {
	eachLine(trimMark(body), func(number int, line string) {
		if field, value := splitLine(line); field != unknown {
			all = append(all, statement{number, field, value})
		}
	})
	return all
}

// FuzzTarget checks that an accepted URL has the host, port and path that the standard library
// finds in it, which dials.
func FuzzTarget(f *testing.F) {
	for _, c := range targetCases {
		f.Add(c.url)
	}
	for _, s := range badURLs {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := ParseTarget(raw)
		if err != nil {
			if target != (Target{}) {
				t.Fatalf("%q: %+v beside the error %v", raw, target, err)
			}
			return
		}
		o := target.Origin
		if again, err := ParseOrigin(o.String()); err != nil || again != o {
			t.Fatalf("%q has origin %s, which reads as %+v, %v", raw, o, again, err)
		}
		if target.Path == "" || target.Path[0] != '/' || strings.Contains(target.Path, "#") {
			t.Fatalf("%q has path %q", raw, target.Path)
		}
		if !strings.Contains(raw, target.Path[1:]) {
			t.Fatalf("%q has path %q, which is not as written", raw, target.Path)
		}
		u, err := url.Parse(raw)
		if err != nil {
			return // net/http answers it with 400
		}
		dialled := u.Hostname()
		if strings.Contains(dialled, ":") {
			dialled = "[" + dialled + "]"
		}
		host, err := hostname.Parse(dialled)
		if err != nil || host != o.Host || u.Port() != "" && strings.TrimLeft(u.Port(), "0") != o.Port {
			t.Fatalf("%q has origin %s, but net/url reads host %q, port %q (%v)", raw, o, dialled, u.Port(), err)
		}
		u.Fragment, u.RawFragment = "", ""
		if u.Opaque == "" && !u.ForceQuery && u.RawQuery != "" && !strings.HasSuffix(target.Path, "?"+u.RawQuery) {
			t.Fatalf("%q has path %q, but net/url reads query %q", raw, target.Path, u.RawQuery)
		}
	})
}

// FuzzPreferences compares the line that refuses a use with the reference's, for every name
// in the file and one that is not in it.
func FuzzPreferences(f *testing.F) {
	for i, test := range preferenceCases {
		f.Add(test.robots, test.path, uint8(i*37))
		f.Add("User-agent: *\n"+test.robots, test.path, uint8(255))
	}
	for i, body := range seeds(f) {
		f.Add(body, seedPaths[i%len(seedPaths)], uint8(i))
	}
	for i, path := range seedPaths {
		f.Add("Content-Usage: /*a train-ai=n\nUser-agent: a\nContent-Signal: /%2A*%24 use=full,ai-train=No\nUser-agent: b\nContent-Signal: /~user ai-train=no,search = no, use=immediate, search=yes\nDisallow:\nContent-Usage: *b;q=1\ncontent usage * train-ai=n;x=:YQ==:, a=(1 \"x\" %\"%c3%a4\");b=?0, c=@1, d=-1.50\n", path, uint8(i))
	}
	f.Fuzz(func(t *testing.T, body, path string, asked uint8) {
		if len(body) > 1<<14 || len(path) > 1<<10 {
			t.Skip("the reference is slow")
		}
		checkPreferences(t, body, path, asked)
	})
}

// checkPreferences compares with the reference. The bits of asked choose the declared use and
// the sources that count.
func checkPreferences(t *testing.T, body, path string, asked uint8) {
	t.Helper()
	contents := []preference.ContentUse{"", preference.Immediate, preference.Reference, preference.Full}
	use := preference.Use{Purposes: preference.Purposes(asked & 7), Content: contents[asked>>3&3]}
	sources := preference.Sources(asked >> 5)
	file, reference := Parse([]byte(body)), referencePreferencesOf(body)
	names := []string{"nobody-of-this-name"}
	for i := range file.groups {
		names = append(names, file.groups[i].name)
	}
	for _, name := range names {
		group, _ := file.Group([]string{name})
		set, of := file.Preferences(group), name
		if group != nil {
			of = group.name
		}
		got, refused := set.Refusal(path, use, sources)
		if refused && got.Line == 0 {
			continue // the search gave up
		}
		if want, wanted := reference.refusal(of, path, use, sources); got != want || refused != wanted {
			t.Fatalf("%q at %q: %+v (%v), the reference says %+v (%v), in\n%s", name, path, got, refused, want, wanted, body)
		}
		if set.RefusesAll(use, sources) && !refused || set.RefusesNone(use, sources) && refused {
			t.Fatalf("%q: all paths are refused: %v, none: %v; but %q: %v, in\n%s", name, set.RefusesAll(use, sources), set.RefusesNone(use, sources), path, refused, body)
		}
	}
}

// TestPreferencesOfRandomFiles compares with the reference files of lines as sites write them,
// in any order.
func TestPreferencesOfRandomFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 1))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	path := func() string {
		return one("", "", "", "/", "*", "/*", "/a", "/a/", "/a/b", "/a*b", "/*b", "/a/b$", "/%61/", "/*?", "/%2A", "b")
	}
	signal := func() string {
		return one("ai-train=no", "AI-Train = NO", "ai-train=yes", "search=no", "ai-input=no", "ai-input=yes", "use=immediate", "use=reference", "Use=Full", "use=none", "other=no", "")
	}
	usage := func() string {
		return one("train-ai=n", "train-ai=y", "train-ai", "train-ai=n;a=1", "search=n", "search=\"n\"", "ai-use=n", "ai-use=(n)", "ai-use=y", "Ai-Use=n", "other=n", "train-ai=:YQ==:", "train-ai=n;")
	}
	line := func() string {
		switch random.IntN(8) {
		case 0, 1:
			return "User-agent: " + one("*", "a", "b", "B/1", "c")
		case 2:
			return one("Disallow: ", "Allow: ") + path()
		case 3:
			return one("Crawl-delay: 1", "Request-rate: 1/9", "Sitemap: s", "# Content-Signal: ai-train=no", "content signals are: no", "")
		case 4, 5:
			return one("Content-Signal: ", "contentsignal:", "CONTENT-SIGNALS: ") + path() + " " + signal() + one(",", ", ", ";") + signal() + one("", " # ai-input=no", "\x00,ai-input=no")
		default:
			return one("Content-Usage: ", "content usage:", "contentusage\t:\t") + path() + one(" ", "\t") + usage() + one(",", ", ", " ") + usage()
		}
	}
	for range 3000 {
		var body strings.Builder
		for range random.IntN(14) {
			body.WriteString(line() + one("\n", "\n", "\r", "\r\n"))
		}
		checkPreferences(t, body.String(), one("/", "/a", "/a/b", "/a/../b?", "/*", ""), uint8(random.Uint32()))
	}
}
