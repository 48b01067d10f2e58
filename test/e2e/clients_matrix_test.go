//go:build clients

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// clients returns the clients of the table in docs/clients.md that need no flags or code for the proxy
// and its CA.
func clients(t *testing.T) []client {
	t.Helper()
	file := copied(t, "clients")
	python := func(library string) []string { return []string{"/usr/bin/python3", file("fetch.py"), library} }
	node24 := filepath.Join(modules(t), "node", "bin", "node")
	return []client{
		{name: "curl", command: []string{"curl", "--silent", "--show-error", "--include"}},
		{name: "wget", command: []string{"wget", "--no-verbose", "--server-response", "--output-document=-"}},
		{name: "git", command: []string{file("clone.sh")}, pages: shopRepositories, refusal: `returned error: 403`},
		{name: "Python requests", command: python("requests")},
		{name: "Python httpx", command: python("httpx")},
		{name: "Python urllib", command: python("urllib")},
		{name: "Scrapy", command: []string{"scrapy", "fetch", "--nolog"}, refusal: answerPage},
		{name: "Node 24 fetch", command: []string{node24, file("fetch.cjs"), "fetch"}},
		{name: "Node 24 http", command: []string{node24, file("fetch.cjs"), "http"}},
		{name: "Go", command: []string{compiled(t, file("fetch.go"))}},
		{name: "Java URLConnection", command: []string{"java", file("Fetch.java"), "URLConnection"}},
		{name: "Java HttpClient", command: []string{"java", file("Fetch.java"), "HttpClient"}},
		{name: "Ruby", command: []string{"ruby", file("fetch.rb")}},
		{name: "PHP curl", command: []string{"php", file("fetch.php"), "curl"}},
	}
}

// adaptedClients returns the other clients of the table. They are adapted as it says they must
// be, unless they are sealed.
func adaptedClients(t *testing.T) []client {
	t.Helper()
	file := copied(t, "clients")
	return []client{
		{name: "Python aiohttp", command: []string{"/usr/bin/python3", file("fetch.py"), "aiohttp"}},
		{name: "older Node fetch", command: []string{"node", "--require=" + file("undici.cjs"), file("fetch.cjs"), "fetch"}},
		{name: "older Node http", command: []string{"node", "--require=global-agent/bootstrap", file("fetch.cjs"), "http"}},
		{name: "PHP stream", command: []string{"php", file("fetch.php"), "stream"}},
		{name: "Chromium", command: []string{file("chromium.sh")}, refusal: answerPage},
		{name: "Playwright", command: []string{"node", file("playwright.cjs")}, refusal: answerPage},
		// Else its own calls to its driver come to the proxy, and lead to the parent.
		{name: "Selenium", command: []string{"env", "no_proxy=localhost", "/usr/bin/python3", file("webdriver.py"), "adapted"}, refusal: answerPage},
		{name: "aria2c", command: shell(aria2c(`--ca-certificate="$ROBOTSPROXY_CA_BUNDLE"`)), refusal: `status=403`},
		{name: "lftp", command: shell(`lftp -c "set ssl:ca-file $ROBOTSPROXY_CA_BUNDLE; cat $0"`), refusal: `403 Forbidden`},
		{name: "yt-dlp", command: []string{"yt-dlp", "--compat-options", "no-certifi", "--output", "-"}, pages: shopClips, refusal: `HTTP Error 403`},
	}
}

// shell returns a command that runs a script of the shell, in which $0 is the URL.
func shell(script string) []string { return []string{"sh", "-c", script} }

// aria2c is a script that shows a page as aria2c gets it.
func aria2c(flags string) string {
	return `aria2c --dir="$TMPDIR" --out=page --allow-overwrite ` + flags + ` "$0" && cat "$TMPDIR/page"`
}

// modules returns the folder of the packages that make test-clients installs from npm.
func modules(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", "..", ".clients", "node_modules"))
	must(t, err)
	return folder
}

// nodeModules is the variable by which Node finds the modules.
func nodeModules(t *testing.T) string { return "NODE_PATH=" + modules(t) }

func TestEveryClientObeysUnderRun(t *testing.T) {
	for _, c := range append(clients(t), adaptedClients(t)...) {
		for _, scheme := range []string{"http", "https"} {
			t.Run(c.name+" over "+scheme, func(t *testing.T) {
				site := newOrigin(t, scheme, shop(), repositories(t))
				// Every host name leads to the site. The site needs one because Go and Ruby use no
				// proxy for loopback names.
				c.obeys(t, site, func(path string) string {
					parent := "http://" + newParent(t, site)
					env := []string{"http_proxy=" + parent, "https_proxy=" + parent, nodeModules(t), "PYTHONDONTWRITEBYTECODE=1"}
					command := append([]string{"--"}, c.command...)
					return newWorld(t).errand(env, append(command, scheme+"://shop.example.com"+path)...).output(t)
				})
			})
		}
	}
}

// directClients returns clients that read no proxy variables.
func directClients(t *testing.T) []client {
	t.Helper()
	file, known := copied(t, "direct"), copied(t, "clients")
	python := func(library string) []string { return []string{"/usr/bin/python3", file("fetch.py"), library} }
	return []client{
		{name: "curl --noproxy", command: []string{"curl", "--silent", "--show-error", "--include", "--noproxy", "*"}},
		{name: "curl without variables", command: []string{"env", "-i", "curl", "--silent", "--show-error", "--include"}},
		{name: "wget --no-proxy", command: []string{"wget", "--no-verbose", "--server-response", "--output-document=-", "--no-proxy"}},
		{name: "git without proxy", command: []string{file("clone.sh")}, pages: shopRepositories, refusal: `returned error: 403`},
		{name: "Python aiohttp without trust_env", command: python("aiohttp")},
		{name: "Python http.client", command: python("http.client")},
		{name: "Python socket", command: python("socket")},
		{name: "older Node fetch by itself", command: []string{"node", known("fetch.cjs"), "fetch"}},
		{name: "older Node agent of its own", command: []string{"node", file("fetch.cjs")}},
		{name: "Node 24 agent of its own", command: []string{filepath.Join(modules(t), "node", "bin", "node"), file("fetch.cjs")}},
		{name: "Go Transport", command: []string{compiled(t, file("fetch.go"))}},
		{name: "Java ProxySelector of its own", command: []string{"java", file("Fetch.java")}},
		{name: "Java without variables", command: []string{"env", "-i", "java", file("Fetch.java")}},
		{name: "Ruby without proxy", command: []string{"ruby", file("fetch.rb")}},
		{name: "Perl LWP", command: []string{"perl", file("fetch.pl")}},
		{name: "PHP stream by itself", command: []string{"php", file("fetch.php")}},
		{name: "Chromium by itself", command: []string{file("chromium.sh")}, refusal: answerPage},
	}
}

// distrustingClients returns clients that read the proxy's variables, but those of trust only by a
// flag. Selenium's own calls to its driver must not come to the proxy, whose localhost is another.
func distrustingClients(t *testing.T) []client {
	t.Helper()
	file := copied(t, "clients")
	return []client{
		{name: "Selenium", command: []string{"env", "no_proxy=localhost", "/usr/bin/python3", file("webdriver.py")}, refusal: answerPage},
		{name: "aria2c", command: shell(aria2c("")), refusal: `status=403`},
		{name: "lftp", command: shell(`lftp -c "cat $0"`), refusal: `403 Forbidden`},
		{name: "yt-dlp", command: []string{"yt-dlp", "--output", "-"}, pages: shopClips, refusal: `HTTP Error 403`},
	}
}

// crawlers returns programs that get what a page links to or shows, and that do not heed
// robots.txt themselves.
func crawlers(t *testing.T) []client {
	t.Helper()
	file := copied(t, "direct")
	return []client{
		{name: "HTTrack", command: []string{"httrack", "--robots=0", "--quiet", "--path", "mirror"}},
		{name: "CheerioCrawler", command: []string{"node", file("cheerio.cjs")}},
		{name: "PlaywrightCrawler", command: []string{"node", file("playwright.cjs")}},
		{name: "website-scraper", command: []string{"node", file("scraper.cjs")}},
		{name: "broken-link-checker", command: []string{"node", file("links.cjs")}},
		{name: "simplecrawler", command: []string{"node", file("simplecrawler.cjs")}},
		{name: "Firefox", command: []string{"firefox-esr", "--headless", "--screenshot", "page.png"}}, // it gets the pictures
	}
}

// Sealed, the clients of the table in docs/clients.md need nothing, and neither do those that read no
// proxy variables.
func TestEveryClientObeysSealed(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, c := range append(clients(t), directClients(t)...) {
		c.obeysSealed(t, sealedSites, nodeModules(t))
	}
}

// Sealed, clients that read no variables of trust need no flag for it.
func TestEveryClientThatDistrustsObeysSealed(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, c := range distrustingClients(t) {
		c.obeysSealed(t, sealedSites[:2], nodeModules(t)) // two of them are slow
	}
}

func TestEveryClientThatCrawlsObeysSealed(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, c := range crawlers(t) {
		for _, s := range sealedSites {
			if c.name == "Firefox" && s.uid == 0 {
				continue // Firefox's sandbox can't be had by root without capabilities
			}
			t.Run(c.name+" on "+s.port(), func(t *testing.T) {
				site := newOriginAt(t, s.address, s.scheme, shop(), linked)
				wantCrawled(t, site, s.get(t, c, "/", nodeModules(t)))
			})
		}
	}
}

// adaptedCrawlers returns crawlers that obey without sealing if they are adapted as docs/clients.md
// says they must be. Those in Node are adapted by global-agent where Node does not heed the
// environment.
func adaptedCrawlers(t *testing.T) []client {
	t.Helper()
	file, plain := copied(t, "clients"), copied(t, "direct")
	node24, older := []string{filepath.Join(modules(t), "node", "bin", "node")}, []string{"node", "--require=global-agent/bootstrap"}
	return []client{
		{name: "wget -r", command: []string{"wget", "--recursive", "--no-verbose", "--execute=robots=off", "--directory-prefix=mirror"}},
		{name: "linkchecker", command: []string{file("linkchecker.sh")}},
		{name: "linkinator", command: append(node24, filepath.Join(modules(t), ".bin", "linkinator"))},
		{name: "CheerioCrawler", command: []string{"node", file("crawlee.cjs"), "cheerio"}},
		{name: "PlaywrightCrawler", command: []string{"node", file("crawlee.cjs"), "playwright"}},
		{name: "website-scraper on Node 24", command: append(node24, plain("scraper.cjs"))},
		{name: "website-scraper on older Node", command: append(older, plain("scraper.cjs"))},
		{name: "crawler on Node 24", command: append(node24, file("crawler.cjs"))},
		{name: "crawler on older Node", command: append(older, file("crawler.cjs"))},
		{name: "simplecrawler on Node 24", command: append(node24, plain("simplecrawler.cjs"))},
		{name: "simplecrawler on older Node", command: append(older, plain("simplecrawler.cjs"))},
		{name: "broken-link-checker on older Node", command: append(older, plain("links.cjs"))},
	}
}

func TestEveryClientThatCrawlsObeysUnderRun(t *testing.T) {
	for _, c := range adaptedCrawlers(t) {
		for _, scheme := range []string{"http", "https"} {
			t.Run(c.name+" over "+scheme, func(t *testing.T) { c.crawlsUnderRun(t, scheme) })
		}
	}
	httrack := client{command: shell(`httrack --robots=0 --quiet --path mirror --proxy "${ROBOTSPROXY_URL#http://}" "$0"`)}
	t.Run("HTTrack over http", func(t *testing.T) { httrack.crawlsUnderRun(t, "http") })
}

func (c client) crawlsUnderRun(t *testing.T, scheme string) {
	t.Helper()
	site := newOrigin(t, scheme, shop(), linked)
	parent := "http://" + newParent(t, site)
	env := []string{"http_proxy=" + parent, "https_proxy=" + parent, nodeModules(t)}
	command := append([]string{"--"}, c.command...)
	w := newWorld(t)
	e := w.errand(env, append(command, scheme+"://shop.example.com/")...)
	e.Dir = w.temp
	wantCrawled(t, site, e.output(t))
}

// Crawlers that go past the proxy are named in docs/clients.md. Should one of them have learned to read the
// variables, the page must say so.
func TestEveryClientThatGoesPast(t *testing.T) {
	plain := copied(t, "direct")
	httrack := []string{"httrack", "--robots=0", "--quiet", "--path", "mirror"}
	for _, c := range []struct {
		name, scheme string
		command      []string
	}{
		{"HTTrack", "http", httrack},
		{"HTTrack with its flag", "https", shell(`httrack --robots=0 --quiet --path mirror --proxy "${ROBOTSPROXY_URL#http://}" "$0"`)},
		{"CheerioCrawler", "http", []string{"node", plain("cheerio.cjs")}},
		{"PlaywrightCrawler", "http", []string{"node", plain("playwright.cjs")}},
		{"website-scraper on older Node", "http", []string{"node", plain("scraper.cjs")}},
		{"simplecrawler on older Node", "http", []string{"node", plain("simplecrawler.cjs")}},
		{"broken-link-checker on older Node", "http", []string{"node", plain("links.cjs")}},
		{"broken-link-checker on Node 24", "http", []string{filepath.Join(modules(t), "node", "bin", "node"), plain("links.cjs")}},
	} {
		t.Run(c.name+" over "+c.scheme, func(t *testing.T) {
			site := newOrigin(t, c.scheme, shop(), linked)
			w := newWorld(t)
			e := w.errand([]string{nodeModules(t)}, append(append([]string{"--"}, c.command...), site.URL+"/")...)
			e.Dir = w.temp
			out := e.output(t)
			asked := site.askedFor("/")
			if len(asked) == 0 || asked[0].Header.Get("Via") != "" {
				t.Errorf("the crawler does not go past the proxy any more; it wrote:\n%s", out)
			}
		})
	}
}

// Clients ask for a page that they are refused, and for one that the site answers with 429 and Retry-After,
// as often as docs/clients.md says.
func TestEveryClientAsksAgain(t *testing.T) {
	file, plain := copied(t, "clients"), copied(t, "direct")
	node24, older := filepath.Join(modules(t), "node", "bin", "node"), []string{"node", "--require=global-agent/bootstrap"}
	const times = 6 // the site answers with 429 one time less
	inWords := map[int]string{1: "once", 3: "three times", 4: "four times", times: "again and again"}
	page := readSection(t, "docs/clients.md", "Crawlers")
	for _, c := range []struct {
		name            string
		command         []string
		refused, paused int // how often it asks
	}{
		{"curl", []string{"curl", "--silent", "--show-error"}, 1, 1},
		{"wget", []string{"wget", "--no-verbose", "--output-document=-"}, 1, 1},
		{"aria2c", shell(aria2c("")), 1, 1},
		{"lftp", shell(`lftp -c "set net:reconnect-interval-base 1; set net:reconnect-interval-multiplier 1; cat $0"`), 1, times},
		{"yt-dlp", []string{"yt-dlp", "--output", "-"}, 1, 1},
		{"linkchecker", []string{file("linkchecker.sh")}, 1, 1},
		{"HTTrack", shell(`httrack --robots=0 --quiet --path mirror --proxy "${ROBOTSPROXY_URL#http://}" "$0"`), 1, 1},
		{"Scrapy", []string{"scrapy", "fetch", "--nolog"}, 1, 3},
		{"CheerioCrawler", []string{"node", file("crawlee.cjs"), "cheerio"}, 4, 4},
		{"PlaywrightCrawler", []string{"node", file("crawlee.cjs"), "playwright"}, 4, 4},
		{"Playwright", []string{"node", file("playwright.cjs")}, 1, 1},
		{"Selenium", []string{"env", "no_proxy=localhost", "/usr/bin/python3", file("webdriver.py"), "adapted"}, 1, 1},
		{"website-scraper", append(older, plain("scraper.cjs")), 1, 3},
		{"crawler", append(older, file("crawler.cjs")), 3, 3},
		{"simplecrawler", append(older, plain("simplecrawler.cjs")), 1, 1},
		{"broken-link-checker", append(older, plain("links.cjs")), 1, 1},
		{"linkinator", []string{node24, filepath.Join(modules(t), ".bin", "linkinator")}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			site := newOrigin(t, "http", shop(), func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == shopPages.allowed && asked.Add(1) < times {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusTooManyRequests)
				}
				io.WriteString(w, "the page "+r.RequestURI)
			})
			parent := "http://" + newParent(t, site)
			get := func(path string) (out string, s object) {
				w := newWorld(t)
				file := filepath.Join(w.temp, "run.json")
				e := w.errand([]string{"http_proxy=" + parent, "https_proxy=" + parent, nodeModules(t)},
					append(append([]string{"--summary", file, "--"}, c.command...), "http://shop.example.com"+path)...)
				e.Dir = w.temp
				out = e.output(t)
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, json.Unmarshal(text, &s))
				return out, s
			}
			out, summary := get(shopPages.refused)
			refused := 0.0
			for _, cause := range summary["causes"].([]any) {
				if cause := object(cause.(map[string]any)); cause["rule"] == "Disallow: /cart" {
					refused = cause["requests"].(float64)
				}
			}
			if int(refused) != c.refused {
				t.Errorf("it asks %v times for the page that it is refused, want %d; it wrote:\n%s", refused, c.refused, out)
			}
			out, _ = get(shopPages.allowed)
			if got := int(asked.Load()); got != c.paused {
				t.Errorf("it asks %d times for the page that gets 429, want %d; it wrote:\n%s", got, c.paused, out)
			}
			row := fmt.Sprintf(`(?m)^\|[^|]*\b%s\b[^|]*\|[^|]*\| %s \| %s\b`, c.name, inWords[c.refused], inWords[c.paused])
			if !regexp.MustCompile(row).MatchString(page) {
				t.Errorf("docs/clients.md says something else: no row is like %s", row)
			}
		})
	}
}

// wantCrawled checks that a crawler got the page that robots.txt allows by the proxy, and that it was
// refused the other, by what the site was asked for and what run wrote at the end.
func wantCrawled(t *testing.T, site *origin, out string) {
	t.Helper()
	wantByProxy(t, site.askedFor(shopPages.allowed))
	if asked := site.askedFor(shopPages.refused); len(asked) > 0 {
		t.Errorf("the site was asked for the refused page %d times", len(asked))
	}
	if !strings.Contains(out, "Disallow: /cart (line 3)") || t.Failed() {
		t.Errorf("want one page allowed and one refused; the crawler wrote:\n%s", out)
	}
}

// linked serves pages that say their own path, and one that links to two others and shows
// them.
func linked(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		io.WriteString(w, "the page "+r.RequestURI)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<title>shop</title><a href="%[1]s"><img src="%[1]s"></a> <a href="%[2]s"><img src="%[2]s"></a>`, shopPages.allowed, shopPages.refused)
}
