package e2e

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// pictured are the sites of the picture in the README, each with its robots.txt. What other
// hosts say is a 503, so that everything there is refused.
var pictured = map[string]string{
	"shop.example.com":   "User-agent: *\nDisallow: /cart\nDisallow: /search\nAllow: /search/about\n\nUser-agent: ExampleBot-Image\nDisallow: /\n",
	"news.example.com":   "User-agent: *\nCrawl-delay: 2\nDisallow: /archive/\n",
	"wiki.example.com":   "User-agent: *\nDisallow: /w/\nDisallow: /*?action=\n",
	"photos.example.com": "User-agent: *\nDisallow: /private/\n",
	"docs.example.com":   "User-agent: *\nDisallow:\n",
}

// picturedRound are requests as the bots of the picture make them, over and over.
var picturedRound = []struct{ agent, url string }{
	{"ExampleBot/2.1", "https://news.example.com/2026/11/harbour-reopens"},
	{"ExampleBot-Image/1.4", "https://photos.example.com/gallery/42"},
	{"Scrapy/2.8 (+https://scrapy.org)", "https://shop.example.com/products/1187"},
	{"ExampleBot/2.1", "https://wiki.example.com/wiki/Tide"},
	{"curl/8.5.0", "https://docs.example.com/guide/start"},
	{"ExampleBot-Image/1.4", "https://shop.example.com/pictures/1187.jpg"},
	{"ExampleBot/2.1", "https://wiki.example.com/w/index.php?title=Tide"},
	{"Scrapy/2.8 (+https://scrapy.org)", "https://shop.example.com/cart?add=1187"},
	{"ExampleBot-Image/1.4", "https://photos.example.com/gallery/43"},
	{"ExampleBot/2.1", "https://shop.example.com/search/about"},
	{"curl/8.5.0", "https://status.example.com/"},
	{"ExampleBot/2.1", "https://docs.example.com/guide/crawling"},
	{"ExampleBot-Image/1.4", "https://photos.example.com/private/7"},
	{"ExampleBot/2.1", "https://news.example.com/2026/11/tide-tables"},
	{"Scrapy/2.8 (+https://scrapy.org)", "https://docs.example.com/reference"},
}

// picturedPauses are the times between requests, each for a minute, over and over: now there is
// more to do and now less.
var picturedPauses = []time.Duration{900, 700, 1100, 500, 400, 800, 1500, 600, 300, 450}

// TestPictures takes the picture of the dashboard that the README shows: of the built program,
// after minutes of traffic of several bots to several sites, in a real browser.
func TestPictures(t *testing.T) {
	folder := os.Getenv("ROBOTSPROXY_PICTURES")
	if folder == "" {
		t.Skip("make screenshots takes the pictures: it says in which folder they go")
	}
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("ROBOTSPROXY_PICTURES_FOR"), "10m"))
	must(t, err)
	site := newOrigin(t, "https", func(w http.ResponseWriter, r *http.Request) {
		text, known := pictured[r.Host]
		if !known {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		io.WriteString(w, text)
	}, nil)
	w := start(t, `identities:
  - {name: images, match: {user_agents: ["ExampleBot-Image/*"]}, product_tokens: [ExampleBot-Image, ExampleBot]}
  - {name: index, match: {user_agents: ["ExampleBot/*"]}, product_tokens: [ExampleBot]}
  - {name: new-crawler, match: {user_agents: ["Scrapy/*"]}, mode: report}
upstream: {proxy: "http://`+newParent(t, site)+`", ca_file: ORIGINS}`)

	client := w.client(true)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(asking.Wait)
	t.Cleanup(cancel)
	asked := 0
	ask := func() {
		bot := picturedRound[asked%len(picturedRound)]
		asked++
		asking.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, bot.url, nil)
			must(t, err)
			r.Header.Set("User-Agent", bot.agent)
			if resp, err := client.Do(r); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			} else if ctx.Err() == nil {
				t.Errorf("%s: %v", bot.url, err)
			}
		})
	}
	for end := time.Now().Add(duration); time.Now().Before(end); {
		ask()
		minute := int(time.Until(end) / time.Minute)
		time.Sleep(picturedPauses[minute%len(picturedPauses)] * time.Millisecond)
	}

	p := w.open(newBrowser(t), "")
	p.do(chromedp.EmulateViewport(1280, 800), colours("light"), chromedp.WaitVisible(chromedp.CSS("#decisions tr")))
	for range picturedRound {
		ask()
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond) // until new rows have faded in
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "dashboard.png"), picture, 0o644))
}
