package answer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
)

func TestFormatByAccept(t *testing.T) {
	for accept, want := range map[string]format{
		"":                                   asText,
		"*/*":                                asText,
		"text/plain":                         asText,
		"image/png":                          asText,
		"text/*":                             asText,
		"nonsense;;, /":                      asText,
		"text/html":                          asHTML,
		"TEXT/HTML":                          asHTML,
		"application/json":                   asProblem,
		"application/problem+json":           asProblem,
		"application/*":                      asProblem,
		"application/json, text/plain, */*":  asText, // axios: both are equally welcome
		"application/json, text/plain;q=0.5": asProblem,
		"text/html;q=0, */*":                 asText,
		"text/plain;q=0, text/html;q=0, */*;q=.1":                                               asProblem,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8": asHTML, // Firefox, Chromium
		"text/html;q=0.4, application/json;q=0.6, */*;q=0.2":                                    asProblem,
	} {
		if got := formatFor(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: format %d, want %d", accept, got, want)
		}
	}
	if got := formatFor(http.Header{"Accept": {"text/html;q=0.1", "application/json"}}); got != asProblem {
		t.Errorf("two lines: format %d", got)
	}
}

// statusField matches a Proxy-Status of one member (RFC 8941) with a Token, a Token and a
// String of printable ASCII.
var statusField = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*; error=[a-z_]+; details="(?:[ !#-\[\]-~]|\\["\\])*"$`)

// Whatever a URL or a rule holds, the header stays valid, and the page shows it as text.
func FuzzAnswer(f *testing.F) {
	f.Add("http://example.com/a", "Disallow: /a")
	f.Add("http://example.com/\"><script>alert(1)</script>", "Disallow: /\"\\\r\nX-Evil: 1")
	f.Add("http://example.com/\x00\xff\u2028", "Allow: /ä<b>&amp;")
	f.Fuzz(func(t *testing.T, url, rule string) {
		v := gate.Verdict{URL: url, Agent: "Bot<x>", Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: rule, Line: 7, RobotsURL: url}
		a := Refusal(&v, time.Now())
		if field := proxyStatus("robotsproxy", a.Kind, a.Details); !statusField.MatchString(field) {
			t.Errorf("Proxy-Status: %q", field)
		}
		_, html := a.render("robotsproxy", asHTML)
		text := regexp.MustCompile(`(?s)<style>.*?</style>|<!doctype html>|</?(html|meta|title|h1|p|dl|dt|dd)( [a-z]+="[^"<>]*")*>`).ReplaceAll(html, nil)
		if strings.ContainsAny(string(text), "<>") {
			t.Errorf("markup from outside: %s", text)
		}
		_, problem := a.render("robotsproxy", asProblem)
		var members map[string]any
		if err := json.Unmarshal(problem, &members); err != nil || members["status"] != 403.0 || members["line"] != 7.0 {
			t.Errorf("problem+json: %v: %s", err, problem)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Now()
	for wait, want := range map[time.Duration]string{0: "1", -time.Hour: "1", 500 * time.Millisecond: "1", 30 * time.Second: "30", 30*time.Second + 1: "31"} {
		a := Refusal(&gate.Verdict{Reason: decision.Unreachable, NextTry: now.Add(wait)}, now)
		if got := a.Header.Get("Retry-After"); got != want {
			t.Errorf("%s: %s, want %s", wait, got, want)
		}
	}
	if got := Refusal(&gate.Verdict{Reason: decision.ByRule, NextTry: now.Add(time.Hour)}, now).Header.Get("Retry-After"); got != "" {
		t.Errorf("a rule's refusal has Retry-After %s", got)
	}
}

// A reader of the text learns who refuses, and when that may change.
func TestRefusalAsText(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		verdict gate.Verdict
		want    string
	}{
		{gate.Verdict{URL: "https://example.com/a", Agent: "Bot", Reason: decision.ByRule}, "\n\nThis answer is from the proxy shop-crawler, not from the site.\n"},
		{gate.Verdict{URL: "https://example.com/a", Agent: "Bot", Reason: decision.Unreachable, NextTry: now.Add(90 * time.Second)},
			"\n\nThe proxy asks the site again in 1m30s.\nThis answer is from the proxy shop-crawler, not from the site.\n"},
	} {
		a := Refusal(&c.verdict, now)
		if _, body := a.render("shop-crawler", asText); !strings.HasPrefix(string(body), "403 Forbidden: robots.txt: ") || !strings.HasSuffix(string(body), c.want) {
			t.Errorf("got\n%s\nwant at its end\n%s", body, c.want)
		}
	}
}

// A site can write only so much of an answer by its errors.
func TestDetailsOfFailuresAreBounded(t *testing.T) {
	a := Failure(fmt.Errorf("malformed HTTP response %q", strings.Repeat("\x1b", 1<<20)))
	if _, body := a.render("robotsproxy", asText); len(body) > 2*maxDetails {
		t.Errorf("%d octets: %.100s", len(body), body)
	}
	if field := proxyStatus("robotsproxy", a.Kind, a.Details); !statusField.MatchString(field) || len(field) > 4*maxDetails {
		t.Errorf("Proxy-Status: %q", field)
	}
}
