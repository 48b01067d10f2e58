package identity

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func globs(t *testing.T, patterns ...string) []Glob {
	t.Helper()
	all := make([]Glob, len(patterns))
	for i, p := range patterns {
		if err := all[i].UnmarshalText([]byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func asker(addr, user, userAgent string, header ...string) Asker {
	a := Asker{Addr: netip.MustParseAddr(addr), User: user, Header: http.Header{"User-Agent": {userAgent}}}
	for i := 0; i < len(header); i += 2 {
		a.Header.Add(header[i], header[i+1])
	}
	return a
}

func TestIdentify(t *testing.T) {
	table := Table{
		Entries: []Entry{
			{Name: "agent", Match: Match{UserAgents: globs(t, "Scrapy/*", "a?c")}},
			{Name: "address and user", Match: Match{Clients: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, Users: []string{"images"}}},
			{Name: "address", Match: Match{Clients: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}}},
			{Name: "user", Match: Match{Users: []string{"images", "text"}}},
			{Name: "headers", Match: Match{Headers: map[string]Glob{"x-crawler": globs(t, "img*")[0], "X-Job": globs(t, "*")[0]}}},
			{Name: "never reached", Match: Match{Users: []string{"text"}}},
		},
		Default: Identity{From: "default"},
	}
	for _, test := range []struct {
		asker Asker
		want  string
	}{
		{asker("192.0.2.1", "", "curl/8"), "default"},
		{asker("192.0.2.1", "", "scrapy/2.8 (+https://scrapy.org)"), "agent"},
		{asker("192.0.2.1", "", "Scrapy"), "default"},
		{asker("192.0.2.1", "", "xScrapy/2"), "default"},
		{asker("192.0.2.1", "", "abc"), "agent"},
		{asker("10.1.2.3", "", "curl/8"), "address"},
		{asker("::ffff:10.1.2.3", "", "curl/8"), "address"},
		{asker("::1", "", "curl/8"), "address"},
		{asker("10.1.2.3", "images", "curl/8"), "address and user"},
		{asker("10.1.2.3", "images", "Scrapy/2"), "agent"},
		{asker("192.0.2.1", "text", "curl/8"), "user"},
		{asker("192.0.2.1", "Text", "curl/8"), "default"},
		{asker("192.0.2.1", "", "curl/8", "X-Crawler", "img-1"), "default"},
		{asker("192.0.2.1", "", "curl/8", "X-Crawler", "img-1", "X-Job", ""), "headers"},
		{asker("192.0.2.1", "", "curl/8", "X-Crawler", "other", "X-Crawler", "IMG", "X-Job", "1"), "headers"},
		{Asker{}, "default"},
	} {
		id, name := table.Identify(&test.asker)
		if name != test.want {
			t.Errorf("%+v is %s, want %s", test.asker, name, test.want)
		}
		if (name == "default") != (id.From == "default") {
			t.Errorf("%s got the identity %+v", name, id)
		}
	}
}

func TestEntryWithoutConditionMatchesAll(t *testing.T) {
	table := Table{Entries: []Entry{{Name: "all"}}}
	a := asker("192.0.2.1", "", "curl/8")
	if _, name := table.Identify(&a); name != "all" {
		t.Errorf("identity %s", name)
	}
	if _, name := table.Identify(&Asker{}); name != "default" {
		t.Errorf("an asker without a request has identity %s", name)
	}
}

func TestGlobs(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"a*c", "a/b.c", true},
		{"a?c", "a/c", true},
		{"a?c", "ac", false},
		{"[a]", "[a]", true},
		{"[a]", "a", false},
		{"{a,b}", "a", false},
		{`a\*`, `a\b`, true},
		{"Ä*", "äb", true},
	} {
		if got := globs(t, test.pattern)[0].Match(test.text); got != test.want {
			t.Errorf("%q over %q: %v", test.pattern, test.text, got)
		}
	}
	if (Glob{}).Match("") {
		t.Error("the zero glob matches")
	}
}

func TestHostGlobs(t *testing.T) {
	for pattern, hosts := range map[string]map[string]bool{
		"*.Müller.example": {"www.xn--mller-kva.example": true, "xn--mller-kva.example": false},
		"BÜCHER.example":   {"xn--bcher-kva.example": true, "bcher.example": false},
		"*.ｅｘａｍｐｌｅ.ＣＯＭ":    {"www.example.com": true},
		"[::1]":            {"::1": true},
		"example.com.":     {"example.com": true},
	} {
		var g HostGlob
		if err := g.UnmarshalText([]byte(pattern)); err != nil {
			t.Error(err)
		}
		for host, want := range hosts {
			if g.Match(host) != want {
				t.Errorf("%q over %q: %v", pattern, host, !want)
			}
		}
	}
	for _, bad := range []string{"bü*.example", strings.Repeat("ü", 254)} {
		if err := new(HostGlob).UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "is not a glob over hosts") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOriginGlobs(t *testing.T) {
	for pattern, origins := range map[string]map[string]bool{
		"https://*.Example.com:443":  {"https://www.example.com": true, "https://example.com": false, "http://www.example.com": false, "https://www.example.com:8443": false},
		"http://müller.example:8080": {"http://xn--mller-kva.example:8080": true, "http://xn--mller-kva.example": false},
		"HTTPS://BÜCHER.example":     {"https://xn--bcher-kva.example": true},
		"http://ｅｘａｍｐｌｅ.com:81":      {"http://example.com:81": true},
		"http://[0:0::1]:81":         {"http://[::1]:81": true},
		"*://example.com":            {"https://example.com": true, "http://example.com": true, "http://example.com:81": false},
		"http://[::1]:80":            {"http://[::1]": true, "http://[::1]:81": false},
		"http://[::1]":               {"http://[::1]": true},
		"http://127.0.0.1:*":         {"http://127.0.0.1:8000": true, "http://127.0.0.1": false},
		"https://intranet.example.*": {"https://intranet.example.com": true, "https://intranet.example.com:8443": true},
	} {
		var g OriginGlob
		if err := g.UnmarshalText([]byte(pattern)); err != nil {
			t.Error(err)
		}
		for origin, want := range origins {
			if g.Match(origin) != want {
				t.Errorf("%q over %q: %v", pattern, origin, !want)
			}
		}
	}
	for _, bad := range []string{"example.com", "https://", "https://example.com/", "https://u@example.com", "*"} {
		if err := new(OriginGlob).UnmarshalText([]byte(bad)); err == nil || !strings.Contains(err.Error(), "scheme://host") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestEntryValidate(t *testing.T) {
	for key, e := range map[string]Entry{
		"name: an identity": {Name: ""},
		"name: default":     {Name: "default"},
		"match.users[1]: ":  {Name: "a", Match: Match{Users: []string{"b", ""}}},
		"product_tokens[0]": {Name: "a", Identity: Identity{ProductTokens: []string{"a b"}}},
	} {
		if err := e.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%+v: %v, want an error about %s", e, err, key)
		}
	}
}
