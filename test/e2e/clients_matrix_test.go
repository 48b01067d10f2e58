//go:build clients

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
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
	}
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
				out := s.get(t, c, "/", nodeModules(t))
				wantByProxy(t, site.askedFor(shopPages.allowed))
				if asked := site.askedFor(shopPages.refused); len(asked) > 0 {
					t.Errorf("the site was asked for the refused page %d times", len(asked))
				}
				if !strings.Contains(out, "Disallow: /cart (line 3)") || t.Failed() {
					t.Errorf("want one page allowed and one refused; the crawler wrote:\n%s", out)
				}
			})
		}
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
