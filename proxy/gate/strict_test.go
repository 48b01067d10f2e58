package gate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
)

// decideBoth judges a URL by a robots.txt without and with strict paths.
func decideBoth(t testing.TB, body, url string) (loose, strict gate.Verdict) {
	t.Helper()
	for _, v := range []struct {
		verdict *gate.Verdict
		strict  bool
	}{{&loose, false}, {&strict, true}} {
		g, err := gate.New(gate.Settings{StrictPaths: v.strict}, &known{policy: rules(body)}, nil, zerolog.Nop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if *v.verdict, err = g.Decide(context.Background(), ask(t, url, "ExampleBot")); err != nil {
			t.Fatal(err)
		}
	}
	return loose, strict
}

func TestStrictPaths(t *testing.T) {
	const body = "User-agent: *\nDisallow: /private\nDisallow: /a+b\nDisallow: //odd\nAllow: /private/open\nAllow: //private/x\n"
	for path, want := range map[string]string{ // the rules that decide without and with strict paths
		"/private":                   "Disallow: /private, Disallow: /private",
		"/public":                    ", ",
		"//private":                  ", Disallow: /private",
		"/%2Fprivate":                ", Disallow: /private",
		"/open//..//private":         ", Disallow: /private",
		"//private/x":                "Allow: //private/x, Disallow: /private",
		"/private//open":             "Disallow: /private, Disallow: /private", // either form is enough
		"/private/open/..//open":     "Disallow: /private, Disallow: /private",
		"/private/open":              "Allow: /private/open, Allow: /private/open",
		"/private/open//x":           "Allow: /private/open, Allow: /private/open",
		"/a%2Bb":                     ", Disallow: /a+b",
		"//odd":                      "Disallow: //odd, Disallow: //odd",
		"/robots.txt?//":             ", ",
		"/public?next=//private/%2F": ", ",
	} {
		loose, strict := decideBoth(t, body, "https://example.com"+path)
		if got := loose.Rule + ", " + strict.Rule; got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
		if why := strict.Why(); strings.Contains(why, "as servers read it") != (loose.Judgment != strict.Judgment) {
			t.Errorf("%s: %s", path, why)
		}
	}
}

// FuzzStrictPaths checks that strict paths allow nothing more.
func FuzzStrictPaths(f *testing.F) {
	for _, path := range []string{"/private", "//private", "/open/%2e%2e%2Fprivate", "/%2F%2f..//?a=%5B"} {
		f.Add("User-agent: *\nDisallow: /private\nDisallow: /*?a=[\nAllow: /private/open\n", path)
		f.Add("User-agent: *\nAllow: /\nDisallow: //\n", path)
	}
	f.Fuzz(func(t *testing.T, body, path string) {
		url := "https://example.com/" + path
		if _, err := robots.ParseTarget(url); err != nil {
			t.Skip("not a URL")
		}
		loose, strict := decideBoth(t, body, url)
		if !loose.Admits() && (strict.Admits() || strict.Rule != loose.Rule || strict.Line != loose.Line) {
			t.Errorf("%q is %s by %q, but strict by %q", path, loose.Judgment, loose.Rule, strict.Rule)
		}
	})
}
