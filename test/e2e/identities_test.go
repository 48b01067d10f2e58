package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fiveIdentities recognise bots by one condition each, and one of them by two.
const fiveIdentities = `
identities:
  - name: images
    match: {users: [images]}
    product_tokens: [ImageBot-Large, ImageBot]
    user_agent: "ImageBot-Large/1.0 (+https://bots.example/images)"
    from: images@bots.example
  - name: texts
    match: {clients: [127.0.0.2/32]}
    product_tokens: [TextBot]
    user_agent: TextBot/2.0
  - name: news
    match: {headers: {X-Crawler: "news*"}}
    product_tokens: [NewsBot]
    from: news@bots.example
  - name: both
    match: {users: [prices], clients: [127.0.0.0/29]}
    product_tokens: [PriceBot]
  - name: spiders
    match: {user_agents: ["scrapy/*", "spider?/*"]}
`

const fiveRobots = `User-agent: ImageBot
Disallow: /texts

User-agent: TextBot
Disallow: /images

User-agent: NewsBot
Allow: /news
Disallow: /

User-agent: PriceBot
Disallow: /*.html$

User-agent: Scrapy
Disallow: /

User-agent: *
Disallow: /news
`

// The API takes the same token from a whole User-Agent as the proxy does, and judges for an
// identity as the proxy does.
func TestAPIJudgesAsTheProxyDoes(t *testing.T) {
	t.Parallel()
	w := start(t, fiveIdentities)
	o := newOrigin(t, "http", says(fiveRobots), nil)
	asked := 0
	same := func(curl, query []string) {
		t.Helper()
		for _, path := range []string{"/images", "/texts", "/news/1", "/a.html"} {
			asked++
			page := fmt.Sprintf("%s%s?%d", o.URL, path, asked)
			w.curl(append(curl, page)...)
			theirs := w.decision(page)
			ours := w.ask("/api/v1/verdict?url=" + url.QueryEscape(page) + "&" + strings.Join(query, "&"))
			for _, member := range []string{"agent", "identity", "verdict", "reason", "rule", "line"} {
				if theirs[member] != ours[member] {
					t.Errorf("%s, %q: the proxy says %s %v, the API %v", path, query, member, theirs[member], ours[member])
				}
			}
		}
	}
	for _, agent := range []string{
		"TextBot", "TextBot/1.0", "curl/8.5.0", "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
		"Mozilla/5.0 (compatible; NewsBot/2.1; +http://news.example/bot.html)", "PriceBot/1 (+http://a.example; a@b.example)",
	} {
		same([]string{"-A", agent}, []string{"agent=" + url.QueryEscape(agent)})
	}
	same([]string{"-H", "X-Crawler: news-1"}, []string{"identity=news"})
	same([]string{"--interface", "127.0.0.2"}, []string{"identity=texts"})
	same([]string{"--proxy-user", "images:x"}, []string{"identity=images"})
	same([]string{"-A", "Scrapy/2.11"}, []string{"identity=spiders", "agent=Scrapy/2.11"})
}

// bot is a client, as it is, as the proxy judges it and as the site sees it.
type bot struct {
	identity, token string
	args            []string // of curl; PROXY stands for the proxy's address
	client          string   // its address
	userAgent, from string   // as the site sees them
	allowed         []string
	refused         map[string]string // the rule that refuses each path
}

var fiveBots = []bot{
	{"images", "ImageBot", []string{"--proxy", "http://images:sesame@PROXY"}, "127.0.0.1",
		"ImageBot-Large/1.0 (+https://bots.example/images)", "images@bots.example",
		[]string{"/images/1", "/news/1", "/a.html"}, map[string]string{"/texts/1": "Disallow: /texts"}},
	// This identity comes before the one that its User-Agent matches.
	{"texts", "TextBot", []string{"--interface", "127.0.0.2", "-A", "Scrapy/2.11"}, "127.0.0.2",
		"TextBot/2.0", "",
		[]string{"/texts/1", "/news/1"}, map[string]string{"/images/1": "Disallow: /images"}},
	{"news", "NewsBot", []string{"-H", "X-Crawler: News-7", "-A", "curl/1", "-H", "From: me@home.example"}, "127.0.0.1",
		"curl/1", "news@bots.example",
		[]string{"/news/1"}, map[string]string{"/texts/1": "Disallow: /", "/a.html": "Disallow: /"}},
	{"both", "PriceBot", []string{"--interface", "127.0.0.3", "--proxy", "http://prices:sesame@PROXY", "-A", "Scrapy/2.11"}, "127.0.0.3",
		"Scrapy/2.11", "",
		[]string{"/texts/1", "/a.html?x"}, map[string]string{"/a.html": "Disallow: /*.html$"}},
	{"spiders", "Scrapy", []string{"-A", "Scrapy/2.11 (+https://scrapy.org)", "-H", "From: me@home.example"}, "127.0.0.1",
		"Scrapy/2.11 (+https://scrapy.org)", "me@home.example",
		nil, map[string]string{"/texts/1": "Disallow: /", "/news/1": "Disallow: /"}},
	// One of two conditions is not enough, and user names are case-sensitive.
	{"default", "PriceBot", []string{"--interface", "127.0.0.9", "--proxy", "http://prices:sesame@PROXY", "-A", "PriceBot/3", "-H", "X-Crawler: no news"}, "127.0.0.9",
		"PriceBot/3", "",
		[]string{"/texts/1"}, map[string]string{"/a.html": "Disallow: /*.html$"}},
	{"default", "curl", []string{"--proxy", "http://Images:sesame@PROXY", "-A", "curl/8"}, "127.0.0.1",
		"curl/8", "",
		[]string{"/texts/1"}, map[string]string{"/news/1": "Disallow: /news"}},
}

// Five bots, and two that match no identity, visit one site through one proxy. Each is
// judged by its own group.
func TestFiveBots(t *testing.T) {
	t.Parallel()
	w := start(t, fiveIdentities)
	for _, door := range doors {
		site := newOrigin(t, door.origin, says(fiveRobots), nil)
		for i, b := range fiveBots {
			t.Run(door.name+"/"+b.identity, func(t *testing.T) {
				w.in(t).visitAs(b, door, site, fmt.Sprintf("?%d", i))
			})
		}
		if n := site.robotsFetches(); n != 1 {
			t.Errorf("%s: robots.txt was fetched %d times, want once for all bots", door.name, n)
		}
	}
	if t.Failed() {
		return // the counts would not come either
	}
	refusals := map[string]int{}
	for _, b := range fiveBots {
		refusals[b.identity] += len(b.refused) * len(doors)
	}
	for identity, n := range refusals {
		w.wantMetric(`robotsproxy_requests_total{identity="`+identity+`",reason="rule",verdict="disallowed"}`, fmt.Sprint(n))
	}
	for _, door := range doors {
		for _, b := range fiveBots {
			w.wantRobotsAskedBy(b, door)
		}
	}
	w.stop()
	for _, password := range []string{"sesame", base64.RawStdEncoding.EncodeToString([]byte("images:sesame"))[:16]} {
		if lines := w.log.Lines(password); len(lines) > 0 {
			t.Errorf("a password is in the log: %s", lines)
		}
	}
}

// visitAs sends a bot to a site. The mark, a query, tells its requests apart from those of
// others.
func (w *world) visitAs(b bot, d door, site *origin, mark string) {
	t := w.t
	marked := func(path string) string {
		if strings.HasSuffix(path, ".html") {
			return "/" + mark[1:] + path // the rule is anchored at the end
		}
		return path + mark
	}
	var want []string
	for _, path := range b.allowed {
		path := marked(path)
		want = append(want, path)
		if r := w.curlAs(b, d, site.URL+path); r.status != 200 || r.body != "the page "+path {
			t.Errorf("%s: %+v, want the page", path, r)
		}
		w.decision(site.URL+path).want(t, "client", b.client, "identity", b.identity, "agent", b.token, "verdict", "allowed", "status", 200)
	}
	for path, rule := range b.refused {
		path := marked(path)
		wantRefused(t, w.curlAs(b, d, site.URL+path), `"`+rule+`"`)
		w.decision(site.URL+path).want(t, "client", b.client, "identity", b.identity, "agent", b.token,
			"verdict", "disallowed", "reason", "rule", "rule", rule, "status", 403)
	}
	asked := site.take()
	var got []string
	for _, r := range asked {
		got = append(got, r.RequestURI)
		if r.UserAgent() != b.userAgent || r.Header.Get("From") != b.from || r.Header["Proxy-Authorization"] != nil {
			t.Errorf("the site was asked for %s with %v", r.RequestURI, r.Header)
		}
	}
	wantSame(t, "pages", got, want)
}

// wantRobotsAskedBy sends a bot to a new site and checks in whose name the proxy asks for
// robots.txt: in the name that the configuration gives the bot, never in the bot's own.
func (w *world) wantRobotsAskedBy(b bot, d door) {
	site := newOrigin(w.t, d.origin, says(fiveRobots), nil)
	w.curlAs(b, d, site.URL+"/texts/1")
	userAgent, from := "robotsproxy/", ""
	if strings.Contains(fiveIdentities, b.userAgent) {
		userAgent = b.userAgent
	}
	if strings.Contains(fiveIdentities, b.from) {
		from = b.from
	}
	for _, r := range site.robotsRequests() {
		if !strings.HasPrefix(r.UserAgent(), userAgent) || r.Header.Get("From") != from || r.Header["Proxy-Authorization"] != nil {
			w.t.Errorf("robots.txt was asked for with %v, want %q and %q", r.Header, userAgent, from)
		}
	}
	if n := site.robotsFetches(); n != 1 {
		w.t.Errorf("robots.txt was fetched %d times", n)
	}
}

func (w *world) curlAs(b bot, d door, url string) reply {
	w.t.Helper()
	args := []string{d.option}
	for _, arg := range b.args {
		args = append(args, strings.ReplaceAll(arg, "PROXY", w.proxy))
	}
	return w.curl(append(args, url)...)
}

// robotsRequests returns the requests for robots.txt.
func (o *origin) robotsRequests() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.robots)
}

// take returns the requests for pages since it was last called.
func (o *origin) take() []*http.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = nil
	return asked
}

// The gate looks at the identity, overrides, mode off, /robots.txt and the policy, in this
// order.
func TestOrderOfJudgment(t *testing.T) {
	t.Parallel()
	plain := newOrigin(t, "http", says("User-agent: *\nDisallow: /private"), nil)
	trusted := newOrigin(t, "h2", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "", http.StatusInternalServerError) }, nil)
	closed := newOrigin(t, "https", says(""), nil)
	judged := newOrigin(t, "http", says("User-agent: *\nDisallow: /"), nil)
	folder := t.TempDir() // beside the configuration's folder
	must(t, os.WriteFile(filepath.Join(folder, "own.txt"), []byte("User-agent: curl\nAllow: /drafts/open\nDisallow: /drafts\n"), 0o600))
	w := start(t, `
identities:
  - {name: reporter, match: {users: [reporter]}, mode: report}
  - {name: tester, match: {users: [tester]}, mode: off}
overrides:
  - {origin: "`+trusted.URL+`", verdict: allow}
  - {origin: "`+closed.URL+`", verdict: disallow}
  - {origin: "`+judged.URL+`", robots_file: "../`+filepath.Base(folder)+`/own.txt"}
  - {origin: "https://127.0.0.1:*", verdict: allow} # never reached by the second
`)
	for i, test := range []struct {
		site            *origin
		user, path      string
		status          int
		verdict, reason string
		rule            string
	}{
		{plain, "", "/public", 200, "allowed", "no_rule", ""},
		{plain, "", "/private", 403, "disallowed", "rule", "Disallow: /private"},
		{plain, "", "/robots.txt", 200, "allowed", "robots_txt", ""},
		{plain, "reporter", "/private", 200, "disallowed", "rule", "Disallow: /private"},
		{plain, "reporter", "/public", 200, "allowed", "no_rule", ""},
		{plain, "tester", "/private", 200, "allowed", "exempt", ""},
		{plain, "tester", "/robots.txt", 200, "allowed", "exempt", ""},
		{trusted, "", "/", 200, "allowed", "override", ""},
		{trusted, "tester", "/", 200, "allowed", "override", ""},
		{trusted, "", "/robots.txt", 500, "allowed", "override", ""},
		{closed, "", "/", 403, "disallowed", "override", ""},
		{closed, "tester", "/", 403, "disallowed", "override", ""},
		{closed, "", "/robots.txt", 403, "disallowed", "override", ""},
		{closed, "tester", "/robots.txt", 403, "disallowed", "override", ""},
		{closed, "reporter", "/", 200, "disallowed", "override", ""},
		{closed, "reporter", "/robots.txt", 200, "disallowed", "override", ""},
		{judged, "", "/drafts", 403, "disallowed", "override", "Disallow: /drafts"},
		{judged, "", "/drafts/open", 200, "allowed", "override", "Allow: /drafts/open"},
		{judged, "", "/else", 200, "allowed", "override", ""},
		{judged, "tester", "/drafts", 403, "disallowed", "override", "Disallow: /drafts"},
		{judged, "reporter", "/drafts", 200, "disallowed", "override", "Disallow: /drafts"},
		{judged, "", "/robots.txt", 200, "allowed", "override", ""},
	} {
		url := fmt.Sprintf("%s%s?%d", test.site.URL, test.path, i)
		args := []string{url}
		if test.user != "" {
			args = append(args, "--proxy-user", test.user+":x")
		}
		identity := test.user
		if identity == "" {
			identity = "default"
		}
		r := w.curl(args...)
		if own := r.header["Proxy-Status"] != nil; r.status != test.status || own != (test.status == 403) {
			t.Errorf("%s, %s: %+v, want status %d", test.user, url, r, test.status)
		}
		pairs := []any{"identity", identity, "verdict", test.verdict, "reason", test.reason, "status", test.status, "rule", nil}
		if test.rule != "" {
			pairs[len(pairs)-1] = test.rule
		}
		w.decision(url).want(t, pairs...)
	}
	for name, test := range map[string]struct {
		site *origin
		want int // fetches by the proxy and by clients
	}{"plain": {plain, 1 + 2}, "trusted": {trusted, 0 + 1}, "closed": {closed, 0 + 1}, "judged": {judged, 0 + 1}} {
		if n := test.site.robotsFetches(); n != test.want {
			t.Errorf("%s: robots.txt was asked for %d times, want %d", name, n, test.want)
		}
	}
	for series, want := range map[string]string{
		`{identity="reporter",reason="rule",verdict="disallowed"}`:     "1",
		`{identity="reporter",reason="override",verdict="disallowed"}`: "3",
		`{identity="tester",reason="exempt",verdict="allowed"}`:        "2",
		`{identity="tester",reason="override",verdict="disallowed"}`:   "3",
		`{identity="default",reason="override",verdict="disallowed"}`:  "3",
	} {
		w.wantMetric("robotsproxy_requests_total"+series, want)
	}
}

// Bots whose User-Agent looks like a browser's are judged by the groups that name them.
func TestBotsWithBrowserUserAgents(t *testing.T) {
	t.Parallel()
	w := start(t)
	const engine = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko"
	bots := map[string]string{
		"Slurp":                "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
		"Mediapartners-Google": engine + "; Mediapartners-Google) Chrome/120.0 Safari/537.36",
		"BingPreview":          engine + ") Chrome/120.0 Safari/537.36 BingPreview/1.0b",
		"Chrome-Lighthouse":    engine + ") HeadlessChrome/120.0 Safari/537.36 Chrome-Lighthouse",
		"Mail.RU_Bot":          "Mozilla/5.0 (compatible; Linux x86_64; Mail.RU_Bot/2.0; +https://help.mail.ru/webmaster)",
		"facebookexternalhit":  engine + ") Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
	}
	rules := "User-agent: Linux\nUser-agent: Safari\nUser-agent: X11\nDisallow: /\n"
	for name := range bots {
		rules += "User-agent: " + name + "\nDisallow: /not-for-" + name + "\n"
	}
	site := newOrigin(t, "http", says(rules), nil)
	for name, userAgent := range bots {
		if answer := w.curl("-A", userAgent, site.URL+"/not-for-"+name); answer.status != 403 {
			t.Errorf("%s got %d: %s", name, answer.status, answer.body)
		}
		if answer := w.curl("-A", userAgent, site.URL+"/for-"+name); answer.status != 200 {
			t.Errorf("%s got %d: %s", name, answer.status, answer.body)
		}
		w.decision(site.URL+"/for-"+name).want(t, "agent", name, "reason", "no_rule")
	}
	browser, hostile := engine+") Chrome/120.0 Safari/537.36", strings.Repeat("a", 30000)
	for i, userAgent := range []string{browser, hostile} {
		url := fmt.Sprintf("%s/everyone%d", site.URL, i)
		w.curl("-A", userAgent, url)
		w.decision(url).want(t, "agent", "*", "reason", "no_group")
	}
}
