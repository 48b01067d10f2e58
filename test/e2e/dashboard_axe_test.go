//go:build clients

package e2e

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// axe-core, a library that checks pages against WCAG, finds nothing wrong with any view, wide or
// narrow, light or dark.
func TestLibraryFindsTheDashboardAccessible(t *testing.T) {
	library, err := os.ReadFile(filepath.Join(modules(t), "axe-core", "axe.min.js"))
	must(t, err)
	w := start(t, dashboardConfig)
	site := newOrigin(t, "http", shop(), nil)
	for _, path := range []string{"/products/1", "/cart", "/account/1"} {
		w.curl(site.URL + path)
		w.curl("-A", "Scrapy/2", site.URL+path)
	}
	p := w.openAt(newBrowser(t), "http://"+w.admin+"/")
	origin := url.QueryEscape(site.URL)
	for route, ready := range map[string]string{
		"#/": "#decisions tr", "#/pace": "#pace-told", "#/origins": "#origins-rows tr", "#/identities": "#identities-rows tr",
		"#/origin?agent=PictureBot&origin=" + origin: "#versions details", "#/explain?agent=curl&url=" + origin + "/cart": "#explained .file",
		"report": ".report",
	} {
		for _, width := range []int64{390, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				p.do(chromedp.EmulateViewport(width, 800), colours(scheme), chromedp.Navigate("http://"+w.admin+"/"+route), chromedp.WaitVisible(chromedp.CSS(ready)))
				if route == "#/" {
					p.do(chromedp.Click(chromedp.CSS("#decisions .opener")))
				}
				p.eval(string(library) + "; undefined")
				p.eval(`{ window.found = null; axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => { window.found = violations.map((v) => v.id + ": " + v.nodes[0].html); }) }`)
				p.want(`window.found`)
				if found := p.eval(`window.found.join("\n")`); found != "" {
					t.Errorf("%s, %d pixels wide, %s:\n%s", route, width, scheme, found)
				}
			}
		}
	}
}
