package urlpath

import (
	"regexp"
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

// FuzzAsServed checks what holds of every path that a server reads.
func FuzzAsServed(f *testing.F) {
	for _, path := range []string{
		"/", "/a/../b/./c/%2e%2E/", "/%2A*%24$%zz%4", "", "?q", "//a//", "/\xff\x00é |", "/.a/..b/...", "/a/..?/../",
		"//private", "/open/%2e%2e%2F/private", "/%252F//..%2f", "/a%3F/..//b?c%5B", "?%%321",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		served := AsServed(path)
		beforeQuery, _, _ := strings.Cut(path, "?")
		stray := strayPercent.MatchString(path) // it may take what follows for its hex
		if again := AsServed(served); again != served && !stray {
			t.Fatalf("%q is read as %q, and that as %q", path, served, again)
		}
		if strings.HasPrefix(path, "/") && (!strings.HasPrefix(served, "/") || strings.HasPrefix(served, "//")) {
			t.Fatalf("%q is read as %q", path, served)
		}
		if more := AsServed("/x/.." + strings.ReplaceAll(beforeQuery, "/", "%2F/") + path[len(beforeQuery):]); strings.HasPrefix(path, "/") && more != served && !stray {
			t.Fatalf("%q is read as %q, but with more slashes as %q", path, served, more)
		}
	})
}

// strayPercent matches a "%" that begins no %XX.
var strayPercent = regexp.MustCompile(`(?s)%(?:[^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)`)
