package robots

import (
	"strings"
	"testing"
)

var targetCases = []struct{ url, origin, path string }{
	{"http://example.com", "http://example.com", "/"},
	{"http://example.com/", "http://example.com", "/"},
	{"http://example.com?q=/a", "http://example.com", "/?q=/a"},
	{"http://example.com#/a", "http://example.com", "/"},
	{"http://example.com?#/a", "http://example.com", "/?"},
	{"http://example.com/a|b/%7E/../é?x=\\#y?z", "http://example.com", "/a|b/%7E/../é?x=\\"},
	{"http://example.com/%41?%zz&100%", "http://example.com", "/%41?%zz&100%"},
	{"http://example.com/?a#%zz", "http://example.com", "/?a"},
	{"HTTPS://Example.COM:443/A", "https://example.com", "/A"},
	{"https://example.com:80/", "https://example.com:80", "/"},
	{"http://example.com:/", "http://example.com", "/"},
	{"http://example.com:0080/", "http://example.com", "/"},
	{"http://example.com:08080/", "http://example.com:8080", "/"},
	{"ftp://example.com:21/pub", "ftp://example.com", "/pub"},
	{"ws://example.com/chat", "http://example.com", "/chat"},
	{"wss://example.com/chat", "https://example.com", "/chat"},
	{"http://user:pa:ss@example.com:8080/", "http://example.com:8080", "/"},
	{"http://user@example.com/@a", "http://example.com", "/@a"},
	{"http://example.com./", "http://example.com", "/"},
	{"http://EX%61MPLE.com/", "http://example.com", "/"},
	{"http://www.müller.eu/", "http://www.xn--mller-kva.eu", "/"},
	{"http://WWW.MÜLLER.EU/", "http://www.xn--mller-kva.eu", "/"},
	{"http://www.m%C3%BCller.eu/", "http://www.xn--mller-kva.eu", "/"},
	{"http://www.XN--mller-kva.eu/", "http://www.xn--mller-kva.eu", "/"},
	{"http://straße.example/", "http://xn--strae-oqa.example", "/"},
	{"http://ｅｘａｍｐｌｅ。com/", "http://example.com", "/"},
	{"http://１２７.0.0.1/", "http://127.0.0.1", "/"},
	{"http://my_host-1/", "http://my_host-1", "/"},
	{"http://_müller.example/", "http://xn--_mller-4ya.example", "/"},
	{"http://127.0.0.1.:8080/", "http://127.0.0.1:8080", "/"},
	{"http://[2001:DB8:0::1]:80/x", "http://[2001:db8::1]", "/x"},
	{"http://[::FFFF:1.2.3.4]:81", "http://[::ffff:1.2.3.4]:81", "/"},
	{"http://host.x1/", "http://host.x1", "/"},
	{"http://0xcafe.example/", "http://0xcafe.example", "/"},
}

var badURLs = []string{
	"", "/path", "//example.com/", "example.com/", "mailto:a@example.com", "http:example.com", "http:/example.com/",
	"ipfs://etc/", "javascript://example.com/", "http", "://example.com",
	"http://", "http:///a", "http://:80/", "http://user@/", "http://.", "http://..", "http://a..b/", "http://.a/", "http://a../",
	" http://example.com/", "http://example.com/ ", "http://exa mple.com/", "http://example.com/a\tb", "http://example.com/\n", "http://example.com/\x7f",
	"http://example.com\\@evil.example/", "http://example.com\\evil/", "http://a@b@c/", "http://a:b@c:d@e/",
	"http://example.com:0/", "http://example.com:65536/", "http://example.com:-1/", "http://example.com:+80/", "http://example.com:8_0/",
	"http://example.com:80:80/", "http://example.com:http/", "http://example.com:80@/", "http://:::cnn.com/", "http://::1/",
	"http://[::1/", "http://[::1]]/", "http://[::1]80/", "http://[]/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/", "http://[example.com]/", "http://a[::1]/",
	"http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://example.0x/", "http://example.1/",
	"http://exa%6/", "http://exa%zz.com/", "http://example.com%2Fa/", "http://a%40b/", "http://a%3A80/", "http://a%00/", "http://%5B::1%5D/", "http://a%25/",
	"http://a／b/", "http://a＠b/", "http://a%EF%BC%8Fb/", "http://\xff/", "http://%ff/", "http://*/", "http://a,b/", "http://xn--\u00fc/",
	"http://" + strings.Repeat("a.", 127) + "aa/", "http://" + ideographs(254) + "/", "http://" + ideographs(20000) + "/", "http://" + strings.Repeat("%61", 1100) + "/",
}

// ideographs returns n different characters, which are costly to map.
func ideographs(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteRune(rune(0x4E00 + i))
	}
	return b.String()
}

// TestLongHosts checks that a text too long for a name is refused before it is mapped, which
// would take seconds, and that the error does not repeat it.
func TestLongHosts(t *testing.T) {
	for _, host := range []string{ideographs(254), ideographs(20000), strings.Repeat("a", 60000), "[" + strings.Repeat(":", 60000) + "]"} {
		_, err := ParseTarget("http://" + host + "/")
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("%d octets: %.200v", len(host), err)
		}
	}
	// The longest name that there may be, in either spelling.
	label := strings.Repeat("a", 63)
	longest := label + "." + label + "." + label + "." + label[:61]
	for _, host := range []string{longest, longest + ".", strings.ReplaceAll(longest, "a", "%61"), strings.ReplaceAll(longest, "a", "%EF%BD%81")} {
		if target, err := ParseTarget("http://" + host + "/"); err != nil || target.Origin.Host != longest {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for _, c := range targetCases {
		got, err := ParseTarget(c.url)
		if err != nil || got.Origin.String() != c.origin || got.Path != c.path {
			t.Errorf("%q: %s and %q, %v; want %s and %q", c.url, got.Origin, got.Path, err, c.origin, c.path)
		}
	}
	for _, url := range badURLs {
		if got, err := ParseTarget(url); err == nil {
			t.Errorf("%q is taken as %s and %q", url, got.Origin, got.Path)
		}
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	for _, url := range []string{
		"http://me:secret@exa mple.com/", "http://me:secret@/", "http://me:secret@a@b/", "http://me:secret@a:b/",
		"http://me@secret@b/", "gopher://me:secret@a/", "http://me:secret@127.1/",
	} {
		if _, err := ParseTarget(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Who types a host gets the URL that was meant, unless that is not clear.
func TestURLsWithoutAScheme(t *testing.T) {
	for url, want := range map[string]string{
		"example.com":           "no scheme; did you mean https://example.com/?",
		"Example.com:8443/a?b":  "no scheme; did you mean https://example.com:8443/a?b?",
		"/a":                    "no scheme://host in it",
		"":                      "no scheme://host in it",
		"mailto:me@example.com": "no scheme://host in it",
		"me:secret@example.com": "no scheme://host in it",
	} {
		if _, err := ParseTarget(url); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
	if _, err := ParseOrigin("example.com"); err == nil || err.Error() != "no scheme; did you mean https://example.com?" {
		t.Error(err)
	}
}

func TestParseOrigin(t *testing.T) {
	for s, want := range map[string]Origin{
		"https://Example.com:443":  {"https", "example.com", "443"},
		"http://example.com":       {"http", "example.com", "80"},
		"ftp://example.com:2121":   {"ftp", "example.com", "2121"},
		"http://[::1]:8080":        {"http", "::1", "8080"},
		"http://bücher.example.:1": {"http", "xn--bcher-kva.example", "1"},
	} {
		if got, err := ParseOrigin(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "example.com", "http://u@example.com", "http://example.com/", "http://example.com/a", "http://example.com?q", "http://example.com#f", "http://example.com:x", "http://exa mple.com"} {
		if got, err := ParseOrigin(s); err == nil {
			t.Errorf("%q is taken as %s", s, got)
		}
	}
	if s := (Origin{}).String(); s != "" {
		t.Errorf("no origin is %q", s)
	}
	target := Target{Origin{"https", "::1", "443"}, "/a?b"}
	if target.Origin.Authority() != "[::1]" || target.String() != "https://[::1]/a?b" {
		t.Errorf("%s at %s", target, target.Origin.Authority())
	}
	if got := (Origin{"http", "::1", "8080"}).RobotsURL(); got != "http://[::1]:8080/robots.txt" {
		t.Error(got)
	}
}

func TestIsRobotsTxt(t *testing.T) {
	for path, want := range map[string]bool{
		"/robots.txt": true, "/robots.txt?a=/b": true, "/%72obots%2Etxt": true, "/a/../robots.txt": true, "/./robots.txt": true, "/%2e%2E/robots.txt": true,
		"/robots.txt/": false, "/Robots.txt": false, "//robots.txt": false, "/robots.txt;a": false, "/robots.txt/../a": false, "/robots.txt%3Fa": false, "/a?/../robots.txt": false, "/%2Frobots.txt": false, "": false,
	} {
		if got := (Target{Path: path}).IsRobotsTxt(); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestCheckEscapes(t *testing.T) {
	for url, wellFormed := range map[string]bool{
		"http://example.com/%zz": false, "http://example.com/a%": false, "http://example.com/a%4": false,
		"http://example.com/%41%4g?q": false, "ftp://example.com/100%": false,
		"http://example.com/%41?%zz&100%": true, "http://example.com/": true,
	} {
		target, err := ParseTarget(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.CheckEscapes(); (err == nil) != wellFormed {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// BenchmarkHostileHost measures the refusal of a host that would take long to map.
func BenchmarkHostileHost(b *testing.B) {
	url := "http://" + ideographs(20000) + "/"
	for b.Loop() {
		if _, err := ParseTarget(url); err == nil {
			b.Fatal("it is taken for a name")
		}
	}
}
