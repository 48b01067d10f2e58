package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// declaring are identities that are told apart by the end of the User-Agent, which names no
// bot of a robots.txt but by its beginning.
const declaring = `identities:
  - {name: train, match: {user_agents: ["* train"]}, purposes: [ai-train]}
  - {name: search, match: {user_agents: ["* search"]}, purposes: [search]}
  - {name: input, match: {user_agents: ["* input"]}, purposes: [ai-input]}
  - {name: all, match: {user_agents: ["* all"]}, purposes: [search, ai-input, ai-train]}
  - {name: reference, match: {user_agents: ["* reference"]}, purposes: [search], content_use: reference}
  - {name: full, match: {user_agents: ["* full"]}, purposes: [search], content_use: full}
listen_socks: 127.0.0.1:0
`

// managed is what Cloudflare puts before a site's robots.txt, less most of its comment.
const managed = `# As a condition of accessing this website, you agree to abide by the following
# content signals:

# ai-train: training or fine-tuning AI models.

# ANY RESTRICTIONS EXPRESSED VIA CONTENT SIGNALS ARE EXPRESS RESERVATIONS OF RIGHTS

# BEGIN Cloudflare Managed content

User-agent: *
Content-Signal: search=yes,ai-train=no,use=reference
Allow: /

User-agent: GPTBot
Disallow: /

# END Cloudflare Managed Content
`

// statedPreference is a robots.txt, a request to its site, and the preference or rule by which
// it is refused; neither if it passes.
type statedPreference struct{ robots, agent, path, preference, rule string }

// check has the request made at a door, and checks what comes of it.
func (p *statedPreference) check(t *testing.T, door string, site *origin, ask func() (status int, body string)) {
	t.Helper()
	before := site.timesAsked(p.path)
	status, body := ask()
	reached := site.timesAsked(p.path) - before
	passes := p.preference == "" && p.rule == ""
	switch {
	case passes && status == 200 && reached == 1:
	case !passes && status == 403 && reached == 0 && strings.Contains(body, p.preference) && strings.Contains(body, p.rule):
	default:
		t.Errorf("%s, %q, %s, %s: status %d, %d requests at the site: %s", door, p.robots, p.agent, p.path, status, reached, body)
	}
}

var statedPreferences = []statedPreference{
	{never, "AnyBot train", "/test", "content-usage: train-ai=n", ""},
	{never, "AnyBot train", "/ai-ok/test", "", ""},
	{never, "AnyBot train", "/never/test", "", "Disallow: /never/"},
	{never, "ExampleBot train", "/never/test", "", ""},
	{never, "AnyBot", "/test", "", ""}, // it declares nothing
	{"User-agent: *\nContent-Usage: train-ai=y, train-ai, search=n, search=\"n\"\n", "AnyBot all", "/", "", ""},
	{"User-agent: *\nContent-Usage: train-ai;allow=n, train-ai=y\n", "AnyBot train", "/", "", ""},
	{"User-agent: *\nContent-Usage: Train-AI=n\n", "AnyBot train", "/", "", ""},
	{"User-agent: *\nContent-Signal: search=yes, ai-train=no\n", "AnyBot search", "/", "", ""},
	{"User-agent: *\nContent-Signal: search=yes, ai-train=no\n", "AnyBot all", "/", "content-signal: ai-train=no", ""},
	{"User-agent: *\nContent-Signal: search=yes,ai-train=no,use=reference\n", "AnyBot full", "/", "content-signal: use=reference", ""},
	{"User-agent: *\nContent-Signal: use=immediate\n", "AnyBot reference", "/", "content-signal: use=immediate", ""},
	{"User-agent: *\nContent-Signal: /blog/ ai-train=no\n", "AnyBot train", "/about", "", ""},
	{"User-agent: *\nContent-Signal: /blog/ ai-train=no\n", "AnyBot train", "/blog/1", "content-signal: /blog/ ai-train=no", ""},
	{"User-agent: *\nContent-Usage: /a train-ai=y\nContent-Usage: /a train-ai=n\n", "AnyBot train", "/a", "content-usage: /a train-ai=n", ""},
	{"User-agent: *\nContent-Signal: ai-train=yes\nContent-Usage: train-ai=n\n", "AnyBot train", "/", "content-usage: train-ai=n", ""},
	{"User-agent: *\nContent-Usage: train-ai=n, search=n\nContent-Usage: /x train-ai=y\n", "AnyBot search", "/x", "", ""},
	{managed, "AnyBot train", "/", "content-signal: ai-train=no", ""},
	{managed, "AnyBot input", "/", "", ""},
	{managed, "AnyBot search", "/", "", ""},
	{managed, "AnyBot full", "/", "content-signal: use=reference", ""},
	{managed, "GPTBot train", "/", "", "Disallow: /"},
}

const never = "User-agent: *\nDisallow: /never/\nContent-Usage: train-ai=n\nContent-Usage: /ai-ok/ train-ai=y\n\nUser-agent: ExampleBot\nContent-Usage: train-ai=y\n"

// timesAsked is how often the origin was asked for a page.
func (o *origin) timesAsked(path string) (times int) {
	for _, asked := range o.pages() {
		if asked == path {
			times++
		}
	}
	return times
}

// Every door refuses what a site refuses to a declared purpose, and hands over the rest.
func TestPreferencesAreEnforcedAtEveryDoor(t *testing.T) {
	t.Parallel()
	w := start(t, declaring+"preferences: {mode: enforce}")
	for _, door := range []struct {
		name, scheme string
		flags        []string
	}{
		{"http", "http", nil},
		{"connect", "https", nil},
		{"connect", "h2", nil},
		{"socks", "https", []string{"--socks5-hostname", w.at("listen_socks")}},
	} {
		sites := map[string]*origin{}
		for _, test := range statedPreferences {
			if sites[test.robots] == nil {
				sites[test.robots] = newOrigin(t, door.scheme, says(test.robots), nil)
			}
			site := sites[test.robots]
			test.check(t, door.name+" "+door.scheme, site, func() (int, string) {
				answer := w.curl(append(door.flags, "--cacert", w.caFile(), "-A", test.agent, site.URL+test.path)...)
				return answer.status, answer.body
			})
		}
		if page := sites[managed].URL + "/"; door.name != "http" {
			w.log.wait(t, w.exited, `"message":"request"`, `"url":"`+page+`"`, `"door":"`+door.name+`"`, `"reason":"preference"`, `"rule":"content-signal: ai-train=no","line":11,"preference":"content-signal: ai-train=no"`)
		}
	}
}

// Clients that know of no proxy get the same verdicts.
func TestPreferencesAreEnforcedAtTheTransparentDoor(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	w := redirectedWorld(t, declaring+"preferences: {mode: enforce}")
	redirect(t, 0, "install", "--except-uid", fmt.Sprint(proxyUser))
	sites := map[string]*origin{}
	for _, test := range statedPreferences {
		address := fmt.Sprintf("192.0.2.1:%d", 8000+len(sites))
		if sites[test.robots] == nil {
			sites[test.robots] = newOriginAt(t, address, "http", says(test.robots), nil)
		}
		site := sites[test.robots]
		test.check(t, "transparent", site, func() (int, string) {
			output := w.curlBy(anyUser, site.URL+test.path, "--user-agent", test.agent, "--write-out", "\n%{http_code}")
			end := max(strings.LastIndexByte(output, '\n'), 0)
			status, err := strconv.Atoi(output[end+1:])
			must(t, err)
			return status, output[:end]
		})
	}
}

// A refusal says the same in every format, in the log, by check and by the API.
func TestRefusalByAPreference(t *testing.T) {
	t.Parallel()
	w := start(t, declaring+"preferences: {mode: enforce}")
	site := newOrigin(t, "http", says(managed+"License: https://example.com/license.xml\n"), nil)
	page := site.URL + "/a"
	why := "content-signal: ai-train=no on line 11 of " + site.URL + "/robots.txt"

	text := w.curl("-A", "AnyBot train", page)
	if text.status != 403 || !strings.HasPrefix(text.body, "403 Forbidden: "+why+"\n") {
		t.Errorf("status %d: %s", text.status, text.body)
	}
	if got := text.header.Get("Proxy-Status"); got != `robotsproxy; error=http_request_denied; details="`+why+`"` {
		t.Errorf("Proxy-Status: %s", got)
	}
	html := w.curl("-A", "AnyBot train", "-H", "Accept: text/html", page)
	if !strings.Contains(html.body, "<h1>") || !strings.Contains(html.body, why) {
		t.Errorf("the page: %s", html.body)
	}
	members := []any{"reason", "preference", "rule", "content-signal: ai-train=no", "line", 11, "preference", "content-signal: ai-train=no", "preference_line", 11, "would_refuse", nil}
	var problem object
	must(t, json.Unmarshal([]byte(w.curl("-A", "AnyBot train", "-H", "Accept: application/json", page).body), &problem))
	problem.want(t, append(members, "detail", why, "status", 403)...)

	ask := "/api/v1/verdict?url=" + url.QueryEscape(page)
	w.ask(ask+"&identity=train").want(t, append(members, "verdict", "disallowed")...)
	w.ask(ask+"&purpose=search&purpose=ai-train").want(t, append(members, "verdict", "disallowed")...)
	w.ask(ask+"&purpose=search").want(t, "verdict", "allowed", "preference", nil)
	w.ask(ask+"&purpose=search&content_use=full").want(t, "verdict", "disallowed", "preference", "content-signal: use=reference")
	w.ask(ask).want(t, "verdict", "allowed", "preference", nil)
	for _, faulty := range []string{"&purpose=train", "&purpose=", "&purpose=search&content_use=all", "&content_use=full"} {
		if status, body := w.get(ask + faulty); status != 400 {
			t.Errorf("%s: status %d: %s", faulty, status, body)
		}
	}
	w.ask("/api/v1/policy?origin="+url.QueryEscape(site.URL)).want(t, "licenses", []any{"https://example.com/license.xml"})
	w.wantMetric(`robotsproxy_requests_total{identity="train",reason="preference",verdict="disallowed"}`, "3")
	wantSame(t, "pages", site.pages(), []string{})
}

// Mode report lets through, tells and counts. SIGHUP changes the mode and the purposes.
func TestPreferencesAreReported(t *testing.T) {
	t.Parallel()
	w := start(t, declaring)
	site := newOrigin(t, "https", says(managed), nil)
	get := func(page string, want int) object {
		t.Helper()
		if answer := w.curl("--cacert", w.caFile(), "-A", "AnyBot train", site.URL+page); answer.status != want {
			t.Fatalf("%s: status %d: %s", page, answer.status, answer.body)
		}
		return w.decision(site.URL + page)
	}
	const spared = `robotsproxy_would_refuse_total{identity="train",source="content-signal"}`
	w.wantMetric(spared, "0")
	get("/reported", 200).want(t, "verdict", "allowed", "reason", "rule", "rule", "Allow: /", "line", 12,
		"preference", "content-signal: ai-train=no", "preference_line", 11, "would_refuse", true)
	w.wantMetric(spared, "1")
	w.ask("/api/v1/verdict?identity=train&url="+url.QueryEscape(site.URL+"/")).want(t, "verdict", "allowed", "would_refuse", true)

	w.reload(true, declaring+"preferences: {mode: enforce}")
	get("/enforced", 403).want(t, "verdict", "disallowed", "reason", "preference", "would_refuse", nil)
	w.reload(true, declaring+"preferences: {mode: enforce, sources: [content-usage]}")
	get("/other-source", 200).want(t, "preference", nil)
	w.reload(true, declaring+"preferences: {mode: off}")
	get("/off", 200).want(t, "preference", nil)
	w.reload(true, strings.ReplaceAll(declaring, "[ai-train]", "[ai-input]")+"preferences: {mode: enforce}")
	get("/another-purpose", 200).want(t, "preference", nil)
	w.wantMetric(spared, "1")
}

// The site's tdmrep.json counts for bots with AI purposes alone, and is fetched once for them.
func TestTDMRepIsEnforced(t *testing.T) {
	t.Parallel()
	w := start(t, declaring+"preferences: {mode: enforce}")
	var fetches atomic.Int32
	site := newOrigin(t, "https", says("User-agent: *\nDisallow: /no\n"), func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/tdmrep.json":
			fetches.Add(1)
			io.WriteString(rw, `[{"location": "/images/", "tdm-reservation": 1}]`)
		default:
			io.WriteString(rw, "the page")
		}
	})
	get := func(agent, path string, want, asked int) {
		t.Helper()
		answer := w.curl("--cacert", w.caFile(), "-A", agent, site.URL+path)
		if answer.status != want || int(fetches.Load()) != asked {
			t.Errorf("%s, %s: status %d, %d fetches of tdmrep.json; want %d, %d: %s", agent, path, answer.status, fetches.Load(), want, asked, answer.body)
		}
	}
	get("AnyBot", "/images/1", 200, 0)
	get("AnyBot search", "/images/2", 200, 0)
	get("AnyBot train", "/no", 403, 0)
	get("AnyBot train", "/images/3", 403, 1)
	get("AnyBot input", "/images/4", 403, 1)
	get("AnyBot train", "/texts", 200, 1)
	w.decision(site.URL+"/images/3").want(t, "reason", "preference", "rule", nil, "preference", "tdmrep: /images/ tdm-reservation: 1", "preference_line", 1)
	w.ask("/api/v1/verdict?purpose=ai-train&url="+url.QueryEscape(site.URL+"/images/5")).want(t, "reason", "preference", "preference_url", site.URL+"/.well-known/tdmrep.json")
}
