package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// newBrowser starts a browser that can reach only this machine. Each page that is opened in
// it gets a tab.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium; install the package chromium, as make deps does")
	}
	profile, err := os.MkdirTemp("", "robotsproxy-browser-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(profile) })
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(filepath.Join(profile, "data")),
		chromedp.NoInheritEnv, chromedp.Env("PATH="+os.Getenv("PATH"), "HOME="+profile, "TZ=UTC"),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE 127.0.0.3"),
	)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	must(t, chromedp.Do(ctx))
	return ctx
}

// tab is a page in a browser, with a record of what it did.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	said  []string // messages in its console
	asked []string // URLs that it requested
}

// open shows the dashboard of w in a new tab. The console must stay empty, and the page must
// ask only w.
func (w *world) open(browser context.Context, route string) *tab {
	w.t.Helper()
	p := w.openAt(browser, "http://"+w.admin+"/"+route)
	w.t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.said) > 0 {
			w.t.Errorf("in the console: %q; it has asked for %q", p.said, p.asked)
		}
	})
	return p
}

// openAt shows a page of w in a new tab. The console may have messages, for tests in which
// something fails.
func (w *world) openAt(browser context.Context, address string) *tab {
	w.t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{t: w.t, ctx: ctx}
	admin := w.admin
	messages := make(chan struct{})
	w.t.Cleanup(func() {
		cancel()
		<-messages
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, asked := range p.asked {
			if u, err := url.Parse(asked); err != nil || u.Host != admin && u.Scheme != "data" { // icons of the browser's own
				w.t.Errorf("the page asked for %s", asked)
			}
		}
	})
	console := chromedp.Console(ctx)
	go func() {
		defer close(messages)
		for m, err := range console {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.said = append(p.said, fmt.Sprintf("%s: %s", m.Type, m.Text))
			p.mu.Unlock()
		}
	}()
	must(w.t, chromedp.Listen(ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			p.mu.Lock()
			p.asked = append(p.asked, sent.Request.URL)
			p.mu.Unlock()
		}
	}))
	p.do(chromedp.EmulateViewport(1600, 1000), chromedp.Navigate(address))
	return p
}

// do acts as a user would.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("in the browser: %v; the page:\n%s", err, p.text("body"))
	}
}

// click clicks the button or link of this name in an element of the page.
func (p *tab) click(part, name string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//*[@id=%q]//*[self::button or self::a][normalize-space()=%q]`, part, name)))
}

// write replaces the text of a field.
func (p *tab) write(field, text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("document.querySelector(%q).select()", field))
	p.do(chromedp.SendKeys(chromedp.CSS(field), text))
}

// choose selects an option of a list.
func (p *tab) choose(field, value string) {
	p.t.Helper()
	p.want(fmt.Sprintf(`[...document.querySelector(%q).options].some((o) => o.value === %[2]q)`, field, value))
	p.eval(fmt.Sprintf(`{ const f = document.querySelector(%q); f.value = %q; f.dispatchEvent(new Event("input", {bubbles: true})); f.dispatchEvent(new Event("change", {bubbles: true})); }`, field, value))
}

// eval returns the value of an expression in the page.
func (p *tab) eval(expression string) any {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[any](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// want waits until an expression is true.
func (p *tab) want(expression string) {
	p.t.Helper()
	waitFor(p.t, func() bool { return p.eval("Boolean("+expression+")") == true },
		func() string {
			return fmt.Sprintf("%s does not become true; the page:\n%s", expression, p.text("body"))
		})
}

// text returns the visible text of the first element that matches a selector.
func (p *tab) text(selector string) string {
	p.t.Helper()
	text, _ := p.eval(fmt.Sprintf("document.querySelector(%q)?.innerText", selector)).(string)
	return text
}

// wantText waits until the text of an element holds all parts.
func (p *tab) wantText(selector string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		p.want(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", selector, part))
	}
}

// decisions returns the paths in the list of decisions, the newest first.
func (p *tab) decisions() []string {
	p.t.Helper()
	paths := []string{}
	for _, text := range p.eval(`[...document.querySelectorAll("#decisions td.url")].map((cell) => cell.textContent)`).([]any) {
		u, err := url.Parse(text.(string))
		must(p.t, err)
		paths = append(paths, u.RequestURI())
	}
	return paths
}

// wantDecisions waits until the list has these paths.
func (p *tab) wantDecisions(want ...string) {
	p.t.Helper()
	var got []string
	waitFor(p.t, func() bool {
		got = p.decisions()
		return slices.Equal(got, want)
	}, func() string { return fmt.Sprintf("the list has %q, want %q", got, want) })
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	for name, test := range map[string]func(t *testing.T, browser context.Context){
		"decisions":  decisionsAsTheyAreMade,
		"broken":     streamThatBreaks,
		"held":       requestsThatAreHeldBack,
		"origins":    originsBySearchAndPage,
		"origin":     originWithItsRules,
		"identities": identitiesAndTheirKeys,
		"overrides":  overridesThatEnd,
		"explain":    explanations,
		"report":     reportsAboutPeriods,
		"hostile":    hostileDataIsText,
		"looks":      looksEverywhere,
		"token":      tokenOfTheBrowser,
		"tasks":      tasksInTwoClicks,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, browser)
		})
	}
}

const dashboardConfig = `identities:
  - {name: images, match: {user_agents: ["ExampleBot*"]}, product_tokens: [PictureBot, ExampleBot]}
  - {name: new-crawler, match: {user_agents: ["Scrapy/*"]}, mode: report}`

func decisionsAsTheyAreMade(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	site, other := newOrigin(t, "http", shop(), nil), newOrigin(t, "https", shop(), nil)
	p := w.open(browser, "")
	p.wantText("#live-empty", "curl -x http://"+w.proxy, "http://"+w.admin+"/ca.pem")
	p.wantText("#stream-state", "live")

	w.curl(site.URL + "/products/1")
	p.wantDecisions("/products/1")
	w.curl("-A", "ExampleBot/2", site.URL+"/cart?<b>")
	w.curl("-A", "Scrapy/2", other.URL+"/account/1")
	p.wantDecisions("/account/1", "/cart?<b>", "/products/1")
	for i, parts := range [][]string{
		{"would be refused", "new-crawler", "Scrapy", "GET", "Disallow: /account/", "line 5", "200"},
		{"refused", "images", "PictureBot", "Disallow: /", "line 17", "403"},
		{"allowed", "default", "curl", "no rule matches", "200"},
	} {
		p.wantText(fmt.Sprintf("#decisions tr:nth-child(%d)", i+1), parts...)
	}
	p.want(`document.querySelectorAll("#decisions .chip.reported, #decisions .chip.refused, #decisions .chip.allowed").length === 3`)

	// Filters, while more decisions come.
	p.choose("#filters [name=outcome]", "refused")
	p.wantDecisions("/cart?<b>")
	w.curl("-A", "ExampleBot/2", site.URL+"/search")
	w.curl(site.URL + "/products/2")
	p.wantDecisions("/search", "/cart?<b>")
	p.choose("#filters [name=outcome]", "would_refuse")
	p.wantDecisions("/account/1")
	p.choose("#filters [name=outcome]", "")
	p.choose("#filters [name=identity]", "default")
	p.wantDecisions("/products/2", "/products/1")
	p.choose("#filters [name=identity]", "")
	p.write("#filters [name=host]", strings.TrimPrefix(other.URL, "https://"))
	p.wantDecisions("/account/1")
	if hash := p.eval("location.hash"); !strings.Contains(hash.(string), "host=127.0.0.1") {
		t.Errorf("the address %v does not say what is filtered", hash)
	}
	p.write("#filters [name=host]", "nowhere.example")
	p.wantText("#live-empty", "None of the decisions that are kept matches the filter")
	p.click("live-empty", "Show all")
	p.wantDecisions("/products/2", "/search", "/account/1", "/cart?<b>", "/products/1")

	for field, value := range map[string]string{"reason": "no_rule", "client": "127.0.0.0/8", "agent": "CUR", "min_wait": "10s"} {
		if field == "reason" || field == "min_wait" {
			p.choose("#filters [name="+field+"]", value)
		} else {
			p.write("#filters [name="+field+"]", value)
		}
		p.want(`location.hash.includes("` + field + `=")`)
	}
	p.wantText("#live-empty", "None")
	p.choose("#filters [name=min_wait]", "")
	p.wantDecisions("/products/2", "/products/1")
	w.openAt(browser, "http://"+w.admin+"/#/?client=nobody").wantText("#live-notice", "neither an address nor a network")

	// An address has its own filter and no other, and a view that comes back shows what its
	// filter selects.
	p.do(chromedp.Navigate("http://" + w.admin + "/#/?outcome=refused"))
	p.wantDecisions("/search", "/cart?<b>")
	p.want(`!document.querySelector("#filters [name=agent]").value`)
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origins"))
	w.curl(site.URL + "/products/9")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/?agent=curl"))
	p.wantDecisions("/products/9", "/products/2", "/products/1")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/"))
	p.wantDecisions("/products/9", "/products/2", "/search", "/account/1", "/cart?<b>", "/products/1")

	// A pause keeps new decisions back.
	p.click("live", "Pause")
	p.wantText("#stream-state", "paused")
	w.curl(site.URL + "/products/3")
	p.wantText("#newer", "Show 1 new")
	p.wantDecisions("/products/9", "/products/2", "/search", "/account/1", "/cart?<b>", "/products/1")
	p.click("live", "Resume")
	p.wantDecisions("/products/3", "/products/9", "/products/2", "/search", "/account/1", "/cart?<b>", "/products/1")

	// The list stands still while somebody points at it or reads a decision.
	p.do(chromedp.Click(chromedp.CSS("#decisions .opener")))
	p.wantText("#decisions .details", "curl", "127.0.0.1 by the door http", "200", "The robots.txt that decided")
	w.curl(site.URL + "/products/4")
	p.wantText("#newer", "Show 1 new")
	p.do(chromedp.Click(chromedp.CSS("#decisions .opener")))
	p.want(`!document.querySelector("#decisions .details")`)
	w.curl(site.URL + "/products/5")
	p.wantText("#newer", "Show 2 new")
	p.click("live", "Show 2 new")
	p.wantDecisions("/products/5", "/products/4", "/products/3", "/products/9", "/products/2", "/search", "/account/1", "/cart?<b>", "/products/1")

	// The page says how many decisions it missed, if more came than the program keeps.
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origins"))
	client := w.client(false)
	for i := range 1010 {
		resp, err := client.Get(fmt.Sprintf("%s/products/%d", site.URL, i))
		must(t, err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	w.decision(site.URL + "/products/1009")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/"))
	p.wantText("#stream-note", "10 decisions missed")
	p.want(`document.querySelector("#decisions td.url").textContent.endsWith("/products/1009") && document.querySelectorAll("#decisions tr").length === 200`)

	// The last hour, as numbers and as a chart.
	p.do(chromedp.Reload())
	p.wantText("#total-allowed", "1,017")
	p.wantText("#total-refused", "2")
	p.want(`document.querySelectorAll("#decisions .new").length === 0`) // old rows do not fade in
	p.want(`document.querySelector("#chart .bar.allowed") && document.querySelector("#chart .bar.refused")`)
	p.want(`document.querySelector("#chart").getAttribute("aria-label").includes("1,017 allowed, 2 refused")`)
	p.do(chromedp.Focus(chromedp.CSS("#chart")), chromedp.SendKeys(chromedp.CSS("#chart"), kb.ArrowLeft+kb.ArrowLeft))
	p.want(`/^\d\d:\d\d: [\d,]+ allowed, \d+ refused, \d+ waited$/.test(document.querySelector("#chart-told").textContent)`)
	p.want(`document.querySelectorAll("#decisions tr").length === 200`)

	// Large numbers fit.
	p.eval(`{ import("/dashboard/chart.js").then((chart) => chart.show({ started: new Date(0).toISOString(), minutes: [{ time: new Date().toISOString(), allowed: 31e6, refused: 0, waited: 123456 }] })) }`)
	p.want(`(([...texts]) => texts.some((text) => text.textContent === "40M") && texts.every((text) => text.getBBox().x >= 0))(document.querySelectorAll("#chart text"))`)

	// One busy minute leaves the others readable, and minutes before the start are no minutes
	// without a request.
	p.eval(`{ import("/dashboard/chart.js").then((chart) => chart.show({ started: new Date(3 * 60_000).toISOString(), minutes: Array.from({length: 60}, (_, i) => ({ time: new Date(i * 60_000).toISOString(), allowed: i < 3 ? 0 : i === 30 ? 9000 : 10, refused: 0, waited: 0 })) })) }`)
	p.want(`document.querySelector("#chart .beyond")?.textContent === "9K" && document.querySelector("#chart .before") && [...document.querySelectorAll("#chart .bar.allowed")].every((bar) => bar.getBBox().height > 20)`)
	p.do(chromedp.SendKeys(chromedp.CSS("#chart"), kb.Home))
	p.wantText("#chart-told", "before the start")
}

// The page says that the stream has broken, and continues by itself where it was.
func streamThatBreaks(t *testing.T, browser context.Context) {
	w := newWorld(t, dashboardConfig)
	// No other test takes a port of this address while the program is away.
	w.runWith("--listen", "127.0.0.3:0", "--admin-listen", "127.0.0.3:0")
	t.Cleanup(w.stop)
	site := newOrigin(t, "http", shop(), nil)
	p := w.openAt(browser, "http://"+w.admin+"/")
	w.curl(site.URL + "/products/1")
	p.wantDecisions("/products/1")
	w.stop()
	p.wantText("#stream-state", "broke")
	w.runWith("--listen", w.proxy, "--admin-listen", w.admin)
	p.wantText("#stream-state", "live")
	w.curl(site.URL + "/products/2")
	p.wantDecisions("/products/2", "/products/1")

	w.stop()
	p.do(chromedp.Navigate("http://" + w.admin + "/#/explain?url=http://a.example/"))
	p.wantText("#explain-notice", "robotsproxy does not answer")
}

// A request that would wait too long looks different from one that is disallowed, and a fetch
// that is due from one that is due later.
func requestsThatAreHeldBack(t *testing.T, browser context.Context) {
	w := start(t, "pace: {max_wait: 1ms}\nrobots: {retry_min: 1ms, retry_max: 1ms}")
	site := newOrigin(t, "http", says("User-agent: *\nCrawl-delay: 20\nDisallow: /cart\n"), nil)
	p := w.open(browser, "")
	for _, path := range []string{"/1", "/2", "/cart"} {
		w.curl(site.URL + path)
	}
	p.wantDecisions("/cart", "/2", "/1")
	p.choose("#filters [name=outcome]", "late")
	p.wantDecisions("/2")
	p.wantText("#decisions tr", "held back", "its turn comes too late", "its turn does not come within", "429")
	p.want(`document.querySelector("#decisions .error").title.includes("1ms")`)

	w.curl("http://" + deadAddress + "/")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origins?q=" + deadAddress))
	p.wantText("#origins-rows", "unreachable", "next try with the next request")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origin?origin=http://" + deadAddress))
	p.wantText("#origin-facts", "Next try\nwith the next request")
	p.wantText("#versions", "No answer yet")
}

func originsBySearchAndPage(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	p := w.open(browser, "#/origins")
	p.wantText("#origins-empty", "first request")
	site := newOrigin(t, "http", shop(), nil)
	w.curl(site.URL + "/products/1")
	w.curl("http://" + deadAddress + "/")
	for i := range 60 {
		w.get(fmt.Sprintf("/api/v1/verdict?url=http://%s/%d", fmt.Sprintf("127.0.7.%d:1", i), i))
	}
	p.write("#search input", site.URL)
	p.wantText("#origins-rows", site.URL, "fresh", "200", "its rules decide")
	p.want(`document.querySelectorAll("#origins-rows tr").length === 1`)
	p.write("#search input", "127.0.7.")
	p.wantText("#origins-rows", "http://127.0.7.0:1", "unreachable", "everything disallowed", "next try in")
	p.want(`document.querySelectorAll("#origins-rows tr").length === 50`)
	p.click("origins", "Next page")
	p.want(`document.querySelectorAll("#origins-rows tr").length === 10`)
	p.click("origins", "First page")
	p.want(`document.querySelectorAll("#origins-rows tr").length === 50`)
	p.write("#search input", "nowhere.example")
	p.wantText("#origins-empty", "No known origin matches")
}

func originWithItsRules(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	var text atomic.Value
	text.Store(readTestdata("robots/shop.txt"))
	site := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text.Load().(string)) }, nil)
	for range 3 {
		w.curl(site.URL + "/cart")
	}
	p := w.open(browser, "#/origins")
	p.click("origins-rows", site.URL)
	p.wantText("#origin-title", site.URL)
	p.wantText("#origin-facts", "fresh", "for 23 h", "200", "its rules decide", "Fetched")
	p.wantText("#sitemaps", "https://shop.example/sitemap.xml", "https://shop.example/sitemap-news.xml")
	p.wantText("#file-told", "10 rules for *")
	const counted = `[...document.querySelectorAll("#file tr.counts")].map((row) => row.cells[0].textContent + " " + row.cells[1].textContent).join(", ")`
	p.want(counted + ` === "2 , 3 3×, 4 , 5 , 6 , 7 , 8 , 9 , 10 , 11 , 12 "`)

	// As an identity, and as any agent.
	p.choose("#reader [name=identity]", "images")
	p.wantText("#file-told", "2 rules for PictureBot, in the group of picturebot")
	p.want(counted + ` === "15 , 16 , 17 , 18 "`)
	p.do(chromedp.Click(chromedp.CSS("#reader [name=only]")))
	p.want(`document.querySelectorAll("#file tbody tr").length === 4`)
	p.write("#reader [name=agent]", "GreedyBot"+kb.Enter)
	p.wantText("#file-told", "1 rule for GreedyBot")
	p.want(counted + ` === "20 , 21 "`)
	p.want(`document.querySelector("#reader [name=identity]").value === "–"`)
	p.choose("#reader [name=identity]", "default")
	p.wantText("#file-told", "10 rules for *")

	// After "Forget", the next request fetches robots.txt, and the history says what changed.
	p.click("origin", "Forget")
	p.wantText("#origin-told", "Forgotten")
	p.wantText("#origin-facts", "Not known")
	text.Store("User-agent: *\nDisallow: /basket\n")
	wantRefused(t, w.curl(site.URL+"/basket"), "Disallow: /basket")
	if n := site.robotsFetches(); n != 2 {
		t.Errorf("robots.txt was fetched %d times, want 2", n)
	}
	p.click("origin", "Refresh")
	p.wantText("#file", "Disallow: /basket")
	p.wantText("#versions .added", "+Disallow: /basket")
	p.wantText("#versions .removed", "-# A shop")
	p.want(`document.querySelectorAll("#versions > details").length === 2`)

	// The view of an invalid origin shows nothing of the one before.
	p = w.openAt(browser, "http://"+w.admin+"/#/origin?origin="+url.QueryEscape(site.URL))
	p.wantText("#versions", "Disallow: /basket")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origin?origin=nobody"))
	p.wantText("#origin-notice", "No scheme; did you mean")
	p.wantText("#history-notice", "No scheme; did you mean")
	p.want(`document.querySelector("#forget").hidden && !document.querySelector("#origin").innerText.includes("Disallow")`)
}

func identitiesAndTheirKeys(t *testing.T, browser context.Context) {
	key, id := signingKey(t, 1)
	w := start(t, dashboardConfig, fmt.Sprintf("default_identity: {sign: {keys: [%s], agent: 'https://bot.example.org', form: string}}", key))
	p := w.open(browser, "#/identities")
	p.wantText("#identities-rows", "images", "PictureBot, ExampleBot", "report", "that of its User-Agent", id[:8]+" at https://bot.example.org, form string")
	p.want(`[...document.querySelectorAll("#identities-rows tr")].map((row) => row.cells[0].innerText.trim() + " " + row.cells[3].innerText.trim().slice(-6)).join() === "images no,new-crawler no,default string"`)
}

func explanations(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	site := newOrigin(t, "https", shop(), nil)
	p := w.open(browser, "#/explain")
	p.write("#question [name=url]", site.URL+"/products/1/video.mp4?size=2")
	p.write("#question [name=agent]", "Unheard-Of PictureBot"+kb.Enter)
	p.wantText("#explained", "refused", "on line 17", "The longest rule", "PictureBot", "picturebot", "Disallow: /", site.URL+"/robots.txt")
	p.wantText("#explained tr.decided", "17", "Disallow: /")
	p.want(`document.querySelectorAll("#explained .file tbody tr").length === 13`)
	p.write("#question [name=agent]", "SomeBot"+kb.Enter)
	p.wantText("#explained", "allowed", "no rule matches")

	// A whole User-Agent is judged by its product token.
	p.write("#question [name=agent]", "Mozilla/5.0 (compatible; PictureBot/1.0; +http://a.example)"+kb.Enter)
	p.wantText("#explained", "refused", "on line 17", "PictureBot", "picturebot")
	p.want(`document.querySelector("#question [name=agent]").value.startsWith("Mozilla/5.0 (compatible;")`)

	// An identity is judged by its own tokens and mode.
	p.write("#question [name=agent]", kb.Backspace)
	p.choose("#question [name=identity]", "images")
	p.click("question", "Explain")
	p.wantText("#explained", "refused", "images, mode enforce", "PictureBot")
	p.choose("#question [name=identity]", "new-crawler")
	p.write("#question [name=url]", site.URL+"/account/1"+kb.Enter)
	p.wantText("#explained", "would be refused", "new-crawler, mode report", "Disallow: /account/")
	p.want(`document.querySelector("#question [name=identity]").value === "new-crawler"`)
	p.choose("#question [name=identity]", "")
	p.write("#question [name=url]", "http://"+deadAddress+"/"+kb.Enter)
	p.wantText("#explained", "refused", "its robots.txt cannot be had", "default, mode enforce")
	if pages := site.pages(); len(pages) > 0 {
		t.Errorf("the site was asked for %q", pages)
	}

	broken := w.openAt(browser, "http://"+w.admin+"/#/explain")
	broken.write("#question [name=url]", "gopher://example.com/"+kb.Enter)
	broken.wantText("#explain-notice", "gopher")
}

// A report is a page that needs no script. Its form asks for other periods, sites and bots, and
// it can be saved as one file.
func reportsAboutPeriods(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	site, other := newOrigin(t, "http", shop(), nil), newOrigin(t, "http", shop(), nil)
	w.curl(site.URL + "/cart")
	w.curl("-A", "ExampleBot/2", other.URL+"/")
	w.curl("-A", "<script>window.hit=1</script>", other.URL+"/<script>window.hit=2</script>")
	waitFor(t, func() bool { return w.report().reported() == 3 }, func() string { return fmt.Sprint(w.report()) })

	p := w.open(browser, "")
	p.do(chromedp.Click(chromedp.CSS(`header a[href="/report"]`)))
	p.wantText(".report", "Requests from", "30 days", "3\n", "Disallow: /cart", site.URL, other.URL)
	p.want(`!window.hit && getComputedStyle(document.querySelector(".report .refused")).fill === "rgb(201, 86, 27)"`)
	p.eval(`document.querySelector("[name=since]").value = document.querySelector("[name=until]").value`)
	p.write("[name=origin]", other.URL+"/any/page")
	p.choose("[name=identity]", "images")
	p.do(chromedp.Click(chromedp.CSS("form button")))
	p.wantText(".report h1", "1 day, UTC", "to "+other.URL, "of the identity images")
	p.want(`document.querySelector("[name=origin]").value === "` + other.URL + `" && document.querySelector("[name=identity]").value === "images"`)
	saved, err := url.Parse(p.eval(`document.querySelector("[download$='.html']").href`).(string))
	must(t, err)
	if status, text := w.get(saved.RequestURI()); status != 200 || !strings.Contains(text, "of the identity images") {
		t.Errorf("the saved page: status %d, %s", status, text)
	}
	broken := w.openAt(browser, "http://"+w.admin+"/report?since=2026-02-01&until=2026-01-31&identity=gone")
	broken.wantText(".notice", "the period would begin on 2026-02-01")
	broken.want(`document.querySelector("[name=identity]").value === "gone" && !document.querySelector(".report")`)
}

// A user who has logged in to the page has access to all that it asks for, even if the token
// is in the page's address.
func tokenOfTheBrowser(t *testing.T, browser context.Context) {
	w := start(t, "admin_token: s3cret")
	site := newOrigin(t, "http", shop(), nil)
	p := w.openAt(browser, "http://anyone:s3cret@"+w.admin+"/")
	p.wantText("#stream-state", "live")
	w.curl(site.URL + "/cart")
	p.wantDecisions("/cart")
	p.do(chromedp.Navigate("http://" + w.admin + "/#/origin?origin=" + url.QueryEscape(site.URL)))
	p.click("origin", "Forget")
	p.wantText("#origin-told", "Forgotten")

	// Without the token, a browser gets a page that says what to do.
	for _, path := range []string{"/", "/report"} {
		status, text := w.get(path)
		if status != 401 || !strings.Contains(text, "<h1>Unauthorized</h1>") || !strings.Contains(text, "the token as the password") {
			t.Errorf("%s without the token: status %d: %s", path, status, text)
		}
	}
}

// Text from sites and clients is shown as text and is never executed.
func hostileDataIsText(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	const script = "<script>window.hit=1</script><svg/onload=window.hit=2><img/src='//203.0.113.1/x'>"
	robots := "User-agent: Bad" + "\nDisallow: /" + script + "\nDisallow: /\u202etxt.exe\x1b[31m\nDisallow: /*\n" +
		"# " + strings.Repeat("long ", 3000) + "\nSitemap: javascript:window.hit=3\nSitemap: " + script + "\n\xff\xfe\x00\n" +
		"User-agent: Other\n" + strings.Repeat("Disallow: /x\n", 3000)
	site := newOrigin(t, "http", says(robots), nil)
	w.curl("-A", "Bad", site.URL+"/"+script)
	w.curl("-A", "Bad"+script+"/1", site.URL+"/?javascript:window.hit=4//"+script)
	w.curl("-A", "Bad\u202e/1", site.URL+"/"+strings.Repeat("a", 5000))

	p := w.open(browser, "")
	p.want(`document.querySelectorAll("#decisions tr").length === 3`)
	for _, route := range []string{
		"#/origins?q=" + url.QueryEscape(script),
		"#/origins",
		"#/origin?agent=Bad&origin=" + url.QueryEscape(site.URL),
		"#/explain?agent=Bad&url=" + url.QueryEscape(site.URL+"/"+script),
		"#/" + script,
	} {
		p.do(chromedp.Navigate("http://" + w.admin + "/" + route))
		switch {
		case strings.HasPrefix(route, "#/origin?"):
			p.wantText("#file", script, "U+202E", "U+001B", "more characters")
			p.wantText("#sitemaps", "javascript:window.hit=3", script)
			p.want(`document.querySelectorAll("#file tr.counts").length === 4 && document.querySelectorAll("#file tbody tr").length === 1000`)
			p.do(chromedp.Click(chromedp.CSS("#file .more")))
			p.want(`document.querySelectorAll("#file tbody tr").length === 2000`)
		case strings.HasPrefix(route, "#/explain"):
			p.wantText("#explained .decided", script)
		}
		p.want(`!window.hit && document.scrollingElement.scrollWidth <= innerWidth`)
		p.want(`document.querySelectorAll("main script, main img, main b, [onerror], [style], main a:not([href^='#']):not([download]):not([href='/ca.pem'])").length === 0`)
	}
}

// The page fits narrow and wide windows, in light and dark. If ROBOTSPROXY_SCREENSHOTS names
// a folder, screenshots are kept there.
func looksEverywhere(t *testing.T, browser context.Context) {
	w := start(t, dashboardConfig)
	var text atomic.Value
	text.Store("User-agent: *\nDisallow: /cart\n\nSitemap: https://shop.example/sitemap.xml\n")
	site := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text.Load().(string)) }, nil)
	other := newOrigin(t, "http", says("User-agent: *\nDisallow: /basket\nCrawl-delay: 0.5\n"), nil)
	w.curl(site.URL + "/")
	text.Store(readTestdata("robots/shop.txt"))
	w.send("DELETE", "/api/v1/policy?origin="+url.QueryEscape(site.URL))
	for i := range 12 {
		agent := []string{"curl/8", "ExampleBot/1", "Scrapy/2.11", "Mozilla/5.0 (compatible; PartnerBot/1.0)"}[i%4]
		path := []string{"/products/1/a-rather-long-name-of-a-product-that-nobody-needs?colour=blue&size=42", "/cart", "/account/help", "/search/tips", "/"}[i%5]
		w.curl("-A", agent, []string{site.URL, other.URL}[i%2]+path)
	}
	w.curl("http://" + deadAddress + "/a")
	w.curl("http://" + deadAddress + "/b")

	p := w.open(browser, "")

	// Where the user chooses all colours, the view that is open still looks unlike the others.
	p.do(media("forced-colors", "active"))
	p.want(`matchMedia("(forced-colors: active)").matches`)
	p.want(`new Set([...document.querySelectorAll("header nav a")].map((link) => getComputedStyle(link).borderBottomColor)).size === 2`)
	p.do(chromedp.EmulateViewport(1280, 800))
	p.want(`[...document.querySelectorAll("#decisions tr.decision")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length >= 8`)
	for view, ready := range map[string]string{
		"": "#decisions tr", "pace": "#pace-told", "origins": "#origins-rows tr", "identities": "#identities-rows tr",
		"origin?agent=PictureBot&origin=" + url.QueryEscape(site.URL):                           "#versions details",
		"explain?agent=curl&url=" + url.QueryEscape(site.URL+"/account/help/for?sort=by-price"): "#explained .file",
	} {
		p.do(chromedp.Navigate("http://"+w.admin+"/#/"+view), chromedp.WaitVisible(chromedp.CSS(ready)))
		for _, width := range []int64{390, 1280, 1600} {
			for _, scheme := range []string{"light", "dark"} {
				p.do(chromedp.EmulateViewport(width, 800), colours(scheme))
				p.want(`document.scrollingElement.scrollWidth <= innerWidth`)
				p.want(fmt.Sprintf(`matchMedia("(prefers-color-scheme: %s)").matches && innerWidth === %d`, scheme, width))
				if folder := os.Getenv("ROBOTSPROXY_SCREENSHOTS"); folder != "" {
					name, _, _ := strings.Cut(view, "?")
					time.Sleep(1500 * time.Millisecond) // until new rows have faded in
					p.screenshot(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", cmp.Or(name, "now"), width, scheme)))
				}
			}
		}
	}
}

// colours has the browser prefer a scheme.
func colours(scheme string) chromedp.Action[chromedp.Void] {
	return media("prefers-color-scheme", scheme)
}

// media has the browser take on a feature that styles ask for.
func media(feature, value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: feature, Value: value}},
		})
		return err
	})
}

func (p *tab) screenshot(file string) {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	must(p.t, err)
	must(p.t, os.WriteFile(file, picture, 0o644))
}

func TestDashboardFiles(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, path := range []string{"/report", "/api/v1/report?format=html"} {
		resp, err := http.Get("http://" + w.admin + path)
		must(t, err)
		resp.Body.Close()
		h := resp.Header
		if csp := h.Get("Content-Security-Policy"); resp.StatusCode != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/html") ||
			!strings.HasPrefix(csp, "default-src 'none'; ") || strings.Contains(csp, "script-src") || strings.Contains(csp, "unsafe") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: status %d, header %v", path, resp.StatusCode, h)
		}
	}
	for path, want := range map[string]string{"/": "text/html", "/dashboard/main.js": "text/javascript", "/dashboard/style.css": "text/css", "/dashboard/icon.svg": "image/svg+xml"} {
		resp, err := http.Get("http://" + w.admin + path)
		must(t, err)
		resp.Body.Close()
		h := resp.Header
		if resp.StatusCode != 200 || !strings.HasPrefix(h.Get("Content-Type"), want) || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: status %d, header %v", path, resp.StatusCode, h)
		}
		r, err := http.NewRequest(http.MethodGet, "http://"+w.admin+path, nil)
		must(t, err)
		r.Header.Set("If-None-Match", h.Get("ETag"))
		if status, _ := w.do(r); status != 304 {
			t.Errorf("%s again: status %d", path, status)
		}
	}
	for _, path := range []string{"/dashboard/", "/dashboard/index.html", "/dashboard/report.html", "/dashboard/none.js", "/none"} {
		if status, _ := w.get(path); status != 404 {
			t.Errorf("%s: status %d", path, status)
		}
	}
	if status, _ := w.get("/", "rebound.example"); status != 403 {
		t.Errorf("under another host name: status %d", status)
	}
	http.DefaultClient.CloseIdleConnections()
}
