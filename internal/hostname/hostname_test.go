package hostname

import (
	"strings"
	"testing"
)

func TestNormal(t *testing.T) {
	for name, want := range map[string]string{
		"example.com":           "example.com",
		"EXAMPLE.com.":          "example.com",
		"BÜCHER.example":        "xn--bcher-kva.example",
		"XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"ｅｘａｍｐｌｅ。com":           "example.com",
		"under_score.example":   "under_score.example",
		"127.0.0.1":             "127.0.0.1",
	} {
		if got, err := Normal(name); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
	for _, bad := range []string{
		"", ".", "a..b", ".example.com", "example.com..", "*.example.com", "exa mple", "example.com:443", "http://example.com",
		"ex%61mple.com", "example%2ecom", "example.com\x00.evil", "b\xfccher.example", "127.1", "0x7f000001",
		"::1", "[::1]", "[example.com]", strings.Repeat("a", 64) + ".example", strings.Repeat("abcdefg.", 32) + "example", strings.Repeat("ü", 254),
	} {
		if got, err := Normal(bad); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		}
	}
}

func TestGlob(t *testing.T) {
	for glob, want := range map[string]string{
		"*":                "*",
		"*.Example.COM":    "*.example.com",
		"*.example.com.":   "*.example.com",
		"BÜCHER.example":   "xn--bcher-kva.example",
		"*.BÜCHER.e?ample": "*.xn--bcher-kva.e?ample",
		"＊。ｅｘａｍｐｌｅ．ＣＯＭ": "*.example.com",
		"ｅｘａ*":                   "exa*",
		"*.א":                    "*.xn--4db",
		"xn--*":                  "xn--*",
		"*-":                     "*-",
		"-?.under_score.example": "-?.under_score.example",
		"127.0.0.*":              "127.0.0.*",
		"[0:0::1]":               "::1",
		"2001:DB8::":             "2001:db8::",
		"[2001:DB8:*]":           "2001:db8:*",
	} {
		if got, err := Glob(glob); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", glob, got, err, want)
		}
	}
	for bad, fault := range map[string]string{
		"bü*.example":             `"bü*" has characters outside ASCII beside a * or ?; write the whole label`,
		"?Ü.example":              "write the whole label",
		"b\xfccher.example":       "UTF-8",
		strings.Repeat("ü", 254):  "254 characters",
		strings.Repeat("ü.", 254): "characters",
	} {
		if got, err := Glob(bad); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %q, %v; want the error %q", bad, got, err, fault)
		}
	}
}

// FuzzGlob checks that a glob without wildcards matches the host that it spells.
func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"example.com", "BÜCHER.example", "ｅｘａｍｐｌｅ。com.", "XN--BCHER-KVA.example", "127.0.0.1", "a_b.ſ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, err := Normal(s)
		if err != nil {
			return
		}
		if again, err := Normal(host); err != nil || again != host {
			t.Errorf("%q becomes %q, and that %q, %v", s, host, again, err)
		}
		if glob, err := Glob(s); err != nil || glob != host {
			t.Errorf("the glob %q is %q, %v; the host is %q", s, glob, err, host)
		}
	})
}
