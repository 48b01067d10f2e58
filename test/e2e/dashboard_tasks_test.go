package e2e

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// tasksInTwoClicks does what people open the dashboard for, each from its first view and with two
// clicks at most.
func tasksInTwoClicks(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig, "pace: {max_wait: 10m, max_crawl_delay: 10m}")
	var text atomic.Value
	text.Store("User-agent: *\nDisallow: /cart\n")
	site := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text.Load().(string)) }, nil)
	slow := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 500\n"), nil)
	for range 3 {
		w.curl("-A", "OtherBot/1", site.URL+"/cart")
	}
	w.send("DELETE", "/api/v1/policy?origin="+url.QueryEscape(site.URL))
	text.Store("# A new line, so that the rule is on another\nUser-agent: *\nDisallow: /cart\nDisallow: /basket\n")
	w.curl("-A", "OtherBot/1", site.URL+"/basket")
	w.curl(slow.URL + "/1")
	go w.client(false).Get(slow.URL + "/2") // it waits until the end

	p := w.open(browser, "")
	now := func() *tab {
		p.do(chromedp.Navigate("http://" + w.admin + "/#/"))
		p.wantText("#signs", "4 refused")
		return p
	}

	// Why was /cart refused for OtherBot? The row says it, and opens to the rest; its version of
	// robots.txt, which is no longer in force, has the rule on its line.
	now().want(`document.querySelectorAll("#decisions tr").length === 5`)
	p.wantText("#decisions tr:nth-child(5)", "/cart", "OtherBot", "refused", "Disallow: /cart", "line 2")
	p.do(chromedp.Click(chromedp.CSS("#decisions tr:nth-child(5) .opener")))
	p.wantText("#decisions .details", "The longest rule of its group", "127.0.0.1")
	p.click("decisions", "The robots.txt that decided")
	p.wantText("#file .decided", "2", "Disallow: /cart")
	p.wantText("#file-version", "An earlier version")

	// What is refused most? The first view says it, and leads to the decisions.
	now().wantText("#top-rows li", "3", "Disallow: /cart", site.URL)
	p.click("top-rows", "Disallow: /cart")
	p.wantDecisions("/basket", "/cart", "/cart", "/cart")

	// Who waits?
	now().do(chromedp.Click(chromedp.CSS(`#signs a[href="#/pace"]`)))
	p.wantText("#pace-rows", slow.URL, "default", "500 s", "in 8 min")

	// What changed?
	now().do(chromedp.Click(chromedp.CSS(`header [data-view=origins]`)))
	p.click("changes-rows", site.URL)
	p.wantText("#versions .added", "+# A new line")

	// Forget an origin.
	now().do(chromedp.Click(chromedp.CSS(`header [data-view=origins]`)))
	p.do(chromedp.Click(chromedp.CSS(`#origins-rows tr.fresh .forget button`)))
	p.wantText("#origins-told", "is forgotten")
	p.want(`document.querySelectorAll("#origins-rows tr").length === 1`)

	// What is shown can be saved.
	for format, want := range map[string]string{"csv": "time,client,", "json": `{"decisions":[`} {
		now().do(chromedp.Navigate("http://" + w.admin + "/#/?outcome=refused"))
		saved, err := url.Parse(p.eval(`document.querySelector("#save-` + format + `").href`).(string))
		must(t, err)
		if status, text := w.get(saved.RequestURI()); status != 200 || !strings.HasPrefix(text, want) || strings.Count(text, "OtherBot") != 4 {
			t.Errorf("%s: status %d: %s", format, status, text)
		}
	}
}
