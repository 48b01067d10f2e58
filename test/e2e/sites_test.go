package e2e

import (
	"net/http"
	"slices"
	"testing"

	"robotsproxy/internal/conformancetest"
)

// visits are the pages of a site that one bot may fetch, and those that it may not.
type visits struct {
	agent            string // its User-Agent
	allowed, refused []string
}

// site is a robots.txt with verdicts that a person has worked out.
type site struct {
	file string
	bots []visits
}

// ownSites are in testdata/robots.
var ownSites = []site{
	{"shop.txt", []visits{
		{"ExampleBot/1.0 (+https://example.org/bot)",
			[]string{"/", "/products/1", "/products/1?colour=red", "/account/help", "/search/tips", "/list.csv.gz", "/list.csv?x", "/Cart", "/products/%63art"},
			[]string{"/cart", "/cartoons", "/%63art", "/products/../cart", "/./cart", "/checkout/pay", "/account/", "/account/help/me", "/products?sort=price",
				"/products?page=2&sort=price", "/products?sessionid=1", "/search", "/search?q=lamp", "/list.csv", "/caf%c3%a9/staff/", "/caf\xc3\xa9/staff/rota", "/x/%2E%2e/cart"}},
		{"ShopBot-Image/2.1", []string{"/products/1/photo.jpg", "/products/a/b/photo.jpg?size=l"}, []string{"/", "/products/1", "/cart"}},
		{"PictureBot", []string{"/products/1/photo.jpg"}, []string{"/products/1/photo.png"}},
		{"GreedyBot/1.0", nil, []string{"/", "/products/1", "/account/help"}},
		{"PartnerBot/3", []string{"/"}, nil},
		{"Mozilla/5.0 (compatible; GreedyBot/2.0; +https://greedy.example/bot)", nil, []string{"/products/1"}},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", []string{"/products/1"}, []string{"/cart"}},
		{"", []string{"/products/1"}, []string{"/cart"}},
	}},
	{"wiki.txt", []visits{
		{"ExampleBot/1.0", []string{"/wiki/Robots", "/w/load.php?modules=site", "/w/api.php?action=summary&page=Robots", "/wiki/Specialist"},
			[]string{"/w/index.php?title=Robots&action=edit", "/w/api.php?action=query", "/w/api.php", "/wiki/Special:Random", "/wiki/Special%3ARandom", "/wiki/Special%3arandom",
				"/wiki/Talk:L%c3%b6schung/2019", "/wiki/Talk:L\xc3\xb6schung/2019", "/wiki/Seite:Pr%C3%BCfung/x", "/trap/", "/wiki/x/../../w/index.php"}},
		{"WebGrabber", nil, []string{"/wiki/Robots"}},
		{"sitesucker/5.0", nil, []string{"/"}},
		{"Archiver/1.0", []string{"/trap/", "/w/index.php"}, nil},
	}},
	{"forge.txt", []visits{
		{"ExampleBot/1.0", []string{"/", "/about.txt"}, []string{"/golang/go", "/about", "/?page=2"}},
		{"FinderBot", []string{"/golang/go", "/golang/go/tree/main/src", "/golang/go/blob/main/README.md", "/golang/go/commits/main?path=x", "/golang/go.git/info"},
			[]string{"/golang/go/tree/dev", "/golang/go/raw/main/x", "/golang/go.git", "/golang/go/commits/main?author=r", "/golang/go/wiki$history", "/search?q=x", "/golang.atom"}},
	}},
	{"news.txt", []visits{
		{"NewsHoarder/1", nil, []string{"/", "/feeds/public"}},
		{"DailyScraper", nil, []string{"/"}},
		{"ExampleBot/1.0", []string{"/", "/feeds/public", "/feeds", "/archive/2020/", "/admin", "/report.pdf?x"}, []string{"/feeds/", "/feeds/private", "/report.pdf", "/archive/2020/5/print"}},
	}},
	{"notfound.txt", []visits{{"ExampleBot/1.0", []string{"/", "/anything"}, nil}}},
}

// realSites are in the conformance data's archive of robots.txt files.
var realSites = []site{
	{"protego/en.wikipedia.org", []visits{
		{"ExampleBot/1.0", []string{"/wiki/Robots_exclusion_standard", "/w/load.php?lang=en", "/w/api.php?action=mobileview&page=Go", "/api/rest_v1/?doc"},
			[]string{"/w/index.php?title=Go&action=edit", "/w/api.php?action=query", "/api/rest_v1/page/Go", "/wiki/Special:Random", "/wiki/Special%3ARandom", "/trap/",
				"/wiki/Wikipedia:L%C3%B6schpr%C3%BCfung/x", "/wiki/../w/index.php"}},
		{"MJ12bot/v1.4.8 (http://mj12bot.com/)", nil, []string{"/wiki/Robots_exclusion_standard"}},
		{"Wget/1.21.3", nil, []string{"/wiki/Robots_exclusion_standard"}},
		{"IsraBot", []string{"/w/index.php"}, nil},
	}},
	{"protego/github.com", []visits{
		{"ExampleBot/1.0", []string{"/humans.txt"}, []string{"/", "/golang/go"}},
		{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			[]string{"/golang/go", "/golang/go/tree/master/src", "/golang/go/blob/master/README.md"},
			[]string{"/golang/go/tree/dev", "/golang/go/pulse", "/golang/go.git", "/search?q=go", "/golang/go/raw/master/x", "/golang/go/commits/master?author=rsc"}},
	}},
	{"protego/stackoverflow.com", []visits{
		{"ExampleBot/1.0", []string{"/questions/11227809/why", "/users/22656/jon?tab=profile", "/questions/tagged/go", "/jobs/1"},
			[]string{"/search?q=go", "/questions/tagged/go+http", "/questions/tagged/go%20http", "/users/22656/jon?tab=activity", "/users/signup-now", "/jobs/companies/n/x",
				"/questions/1/x?answertab=votes", "/10m"}},
		{"Googlebot-Image/1.0", []string{"/search?q=go"}, []string{"/users/flair/1.png", "/x/ivc/1"}},
		{"008/0.83", nil, []string{"/questions/11227809/why"}},
	}},
	{"protego/www.nytimes.com", []visits{
		{"ExampleBot/1.0", []string{"/section/world", "/svc/news/v3/all/pshb.rss", "/ads/public/x", "/2019/a.pdf?x=1"},
			[]string{"/svc/news", "/svc", "/ads/x", "/2019/a.pdf", "/section/world?page=2&query=x", "/registered", "/video/embedded/1", "/a?utm_source=b"}},
		{"omgili/0.5 +http://omgili.com", nil, []string{"/section/world"}},
	}},
	{"protego/www.gutenberg.org", []visits{
		{"CCBot/2.0 (https://commoncrawl.org/faq/)", nil, []string{"/ebooks/1342"}},
		{"Mail.RU_Bot/2.0", nil, []string{"/ebooks/1342"}},
		{"Twitterbot/1.0", []string{"/ebooks/search/?query=pride"}, nil},
	}},
	{"protego/www.reddit.com", []visits{
		{"ExampleBot/1.0", []string{"/r/golang/", "/partner_api/x", "/sitemaps/a.xml", "/r/golang/submit/now"},
			[]string{"/r/golang/.rss", "/r/golang.json", "/r/golang/comments/1/x/?sort=new", "/r/golang/submit", "/api/v1/me", "/a.xml", "/r/golang/?after=t3"}},
		{"bender", []string{"/earth", "/login"}, []string{"/my_shiny_metal_ass"}},
		{"Gort", []string{"/login"}, []string{"/earth"}},
	}},
	{"protego/www.python.org", []visits{
		{"Mozilla/4.5 (compatible; HTTrack 3.0x; Windows 98)", nil, []string{"/"}},
		{"Krugle/Krugle,Nutch/0.8+ (Krugle web crawler)", []string{"/doc/"}, []string{"/webstats/", "/~guido/orlijn/1.jpg"}},
		{"Nutch/1.18", nil, []string{"/doc/"}},
		{"ExampleBot/1.0", []string{"/doc/", "/~guido/"}, []string{"/webstats/x", "/~guido/orlijn/", "/%7Eguido/orlijn/"}},
	}},
	{"protego/www.bbc.co.uk", []visits{
		{"ExampleBot/1.0", []string{"/news", "/searching", "/cbbc/shows", "/food/search", "/radio/aod"},
			[]string{"/search", "/search?q=x", "/cbbc/search?q=x", "/food/recipes/pie/shopping-list", "/food/search?q=x", "/news/0"}},
		{"Googlebot-News", []string{"/radio/aod"}, []string{"/search"}},
		{"Googlebot/2.1", []string{"/food/search?q=x"}, []string{"/radio/aod", "/search"}},
		{"QuerySeekerSpider", nil, []string{"/news"}},
	}},
}

func TestCurlGetsWhatOwnSitesAllow(t *testing.T) {
	t.Parallel()
	curlSites(t, ownSites, func(file string) string { return readTestdata("robots/" + file) })
}

func TestCurlGetsWhatRealSitesAllow(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for name, text := range conformancetest.RealSites(t) {
		texts[name] = string(text)
	}
	curlSites(t, realSites, func(name string) string {
		text := texts["realworld/"+name]
		if text == "" {
			t.Fatalf("the archive of real sites has no robots.txt of %s", name)
		}
		return text
	})
}

// door is a way through the proxy: the protocol that curl speaks, and the one that the origin
// speaks.
type door struct {
	name, origin, option string
	version, originProto string
}

var doors = []door{
	{"http", "http", "--http1.1", "1.1", "HTTP/1.1"},
	{"tunnelled http", "http", "--proxytunnel", "1.1", "HTTP/1.1"},
	{"https h1 to h1", "https", "--http1.1", "1.1", "HTTP/1.1"},
	{"https h2 to h1", "https", "--http2", "2", "HTTP/1.1"},
	{"https h1, origin has h2", "h2", "--http1.1", "1.1", "HTTP/1.1"},
	{"https h2 to h2", "h2", "--http2", "2", "HTTP/2.0"},
}

// curlSites sends curl to every site through every door. It must get all that is allowed,
// and the site must not see the rest.
func curlSites(t *testing.T, sites []site, read func(string) string) {
	w := start(t, "log: {decisions: refused}")
	for _, s := range sites {
		text := read(s.file)
		origins := make([]*origin, len(doors))
		for i, door := range doors {
			// Origins stay until the end. If another one took the same port, the
			// proxy would know a robots.txt for it already.
			origins[i] = newOrigin(t, door.origin, says(text), nil)
		}
		t.Run(s.file, func(t *testing.T) {
			for i, door := range doors {
				t.Run(door.name, func(t *testing.T) {
					w.in(t).visit(s, text, origins[i], door)
				})
			}
		})
	}
}

func (w *world) visit(s site, text string, o *origin, d door) {
	t := w.t
	var pages []string
	for _, bot := range s.bots {
		got := w.statuses(o.URL, bot.agent, slices.Concat(bot.allowed, bot.refused), d.option)
		for _, path := range bot.allowed {
			if got[path] != http.StatusOK {
				t.Errorf("%q wants %s: status %d, want 200", bot.agent, path, got[path])
			}
		}
		for _, path := range bot.refused {
			if got[path] != http.StatusForbidden {
				t.Errorf("%q wants %s: status %d, want 403", bot.agent, path, got[path])
			}
		}
		pages = append(pages, bot.allowed...)
	}
	wantSame(t, "the origin was asked for", o.pages(), pages)
	if n := o.robotsFetches(); n != 1 {
		t.Errorf("robots.txt was fetched %d times, want once", n)
	}
	if proto := o.last(t).Proto; proto != d.originProto {
		t.Errorf("the origin was spoken to in %s, want %s", proto, d.originProto)
	}
	if r := w.curl(d.option, o.URL+"/robots.txt"); r.status != 200 || r.version != d.version || r.body != text {
		t.Errorf("robots.txt by curl: status %d, HTTP/%s, %d octets; want 200, HTTP/%s, %d octets",
			r.status, r.version, len(r.body), d.version, len(text))
	}
}
