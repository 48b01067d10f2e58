package robots

import (
	"strings"
	"testing"
)

func TestAsServed(t *testing.T) {
	for path, want := range map[string]string{
		"/private": "/private", "/private/": "/private/", "/": "/", "": "", "/a?b=//c/../d": "/a?b=//c/../d",
		"//private": "/private", "///private//x//": "/private/x/", "/open/..//private": "/private", "/open//../private": "/private", "/open//..//private": "/private",
		"/%2Fprivate": "/private", "/open%2F..%2Fprivate": "/private", "/open/%2e%2e%2f/private": "/private", "/./private": "/private", "/private/.": "/private/", "/private/x/..": "/private/",
		"/..": "/", "/../..//": "/", "/.": "/", "//": "/", "/%2F": "/", "/...": "/...", "/.a/..b": "/.a/..b",
		"/%70rivate": "/private", "/a%2Bb%3Ac": "/a+b:c", "/a%3Fb%2F": "/a%3Fb/", "/a%3F/../b": "/b", "/a%23b": "/a#b", "/a%2Ab%24": "/a*b$",
		"/a%252Fb": "/a%252Fb", "/a%20b%5Cc%00%C3%A9": "/a%20b%5Cc%00%C3%A9", "/a%zz%": "/a%zz%",
		"/a?f%5Bx%5D=1%262%2B3%3D4%23%3B": "/a?f[x]=1%262%2B3%3D4%23%3B", "//?//": "/?//", "?a%5B": "/?a[", "a/..": "/",
	} {
		if got := AsServed(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { AsServed("/catalog/lamps/desk-lamp-17?colour=white") }); n > 0 {
		t.Errorf("a usual path allocates %v times", n)
	}
}

// FuzzAsServed holds what is true of the path that a server reads, and of the verdict on
// it: what a group says of all paths is true of this one, too.
func FuzzAsServed(f *testing.F) {
	for i, body := range seeds(f) {
		f.Add(body, seedPaths[i%len(seedPaths)])
	}
	for _, path := range []string{"//private", "/open/%2e%2e%2F/private", "/%252F//..%2f", "/a%3F/..//b?c%5B"} {
		f.Add("User-agent: *\nDisallow: /private\nAllow: /open\n", path)
	}
	f.Fuzz(func(t *testing.T, body, path string) {
		served, stray := AsServed(path), Target{Path: path}.CheckEscapes() != nil
		if again := AsServed(served); again != served && !stray { // it may take what follows for its hex
			t.Fatalf("%q is read as %q, and that as %q", path, served, again)
		}
		beforeQuery, _, _ := strings.Cut(path, "?")
		if strings.HasPrefix(path, "/") && (!strings.HasPrefix(served, "/") || strings.HasPrefix(served, "//")) {
			t.Fatalf("%q is read as %q", path, served)
		}
		if more := AsServed("/x/.." + strings.ReplaceAll(beforeQuery, "/", "%2F/") + path[len(beforeQuery):]); strings.HasPrefix(path, "/") && more != served && !stray {
			t.Fatalf("%q is read as %q, but with more slashes as %q", path, served, more)
		}
		file := Parse([]byte(body))
		for i := range file.groups {
			group := &file.groups[i]
			rule, matches := group.Match(served)
			if e := group.Extent(); e == Everything && matches && !rule.Allow || e == Nothing && (!matches || rule.Allow) {
				t.Fatalf("the extent is %v, the verdict on %q by %+v (%v)", e, served, rule, matches)
			}
		}
	})
}
