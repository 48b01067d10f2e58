package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	"robotsproxy/proxy/decision"
)

// dashboardFiles are all files of the dashboard. Besides them it uses the API only.
//
//go:embed dashboard
var dashboardFiles embed.FS

// dashboardPages are those of the files that are made for each request.
var dashboardPages = template.Must(template.ParseFS(dashboardFiles, "dashboard/*.html"))

// dashboardCSP makes browsers load nothing but the dashboard's own files, since it shows what
// sites and clients wrote. The last two directives stop scripts from turning text into markup.
const dashboardCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// fileTypes replaces the system's table, which may differ. Browsers must not sniff types.
var fileTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// page serves the page at /.
func (a *Admin) page(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	content := struct {
		Proxy   string
		Reasons []decision.Reason
	}{a.proxyFor(r), decision.Reasons()}
	if err := dashboardPages.ExecuteTemplate(&page, "index.html", content); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	serveFile(w, r, "index.html", page.Bytes())
}

// pageFile serves the page's files, which are below /dashboard/.
func (a *Admin) pageFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := dashboardFiles.ReadFile("dashboard/" + name)
	if err != nil || path.Ext(name) == ".html" {
		http.NotFound(w, r)
		return
	}
	serveFile(w, r, name, content)
}

// serveFile responds with a file. Browsers must ask each time whether it has changed, so that
// they never mix the files of two versions of the program.
func serveFile(w http.ResponseWriter, r *http.Request, name string, content []byte) {
	h := w.Header()
	setPageHeader(h, path.Ext(name), dashboardCSP)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(content))[:32]))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// setPageHeader sets what every file of a page has, by its extension.
func setPageHeader(h http.Header, ext, csp string) {
	h.Set("Content-Type", fileTypes[ext])
	h.Set("Content-Security-Policy", csp)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// proxyFor returns the address at which the sender of a request reaches the proxy. If the
// proxy listens on every address, its host is the request's.
func (a *Admin) proxyFor(r *http.Request) string {
	host, port, err := net.SplitHostPort(a.setup.Proxy.String())
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return a.setup.Proxy.String()
	}
	asked := (&url.URL{Host: r.Host}).Hostname()
	return net.JoinHostPort(asked, port)
}
