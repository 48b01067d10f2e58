// Package dashboard is the admin server's pages for people: the dashboard at /, and at /report
// the report about a period. Make them with [Site].
//
// The dashboard is a page without a framework. What changes on it, its scripts ask the JSON API
// for. The page at /report needs no script.
package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/report"
)

// A Site is what the pages show besides what their scripts ask for.
type Site struct {
	Proxy      net.Addr        // where the proxy listens
	Identities func() []string // the names of all identities
	// Report makes a report of what has been decided.
	Report func(ctx context.Context, scope report.Scope) (*report.Report, error)
	Now    func() time.Time
}

// Routes returns the handlers of the pages, and of the files that these load, by the patterns
// of [http.ServeMux].
func (s Site) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /{$}":              s.dashboard,
		"GET /report":           s.report,
		"GET /dashboard/{file}": serveFile,
	}
}

// files are all files of the pages. Besides them the pages use the API only.
//
//go:embed *.css *.html *.js *.svg
var files embed.FS

// pages are those of the files that are made for each request.
var pages = template.Must(template.ParseFS(files, "*.html"))

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

// A reason is what the scripts show of a [decision.Reason].
type reason struct{ Name, Phrase, Sentence string }

// dashboard serves the page at /.
func (s Site) dashboard(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	content := struct {
		Proxy   string
		Reasons []reason
	}{Proxy: s.proxyFor(r)}
	for _, r := range decision.Reasons() {
		content.Reasons = append(content.Reasons, reason{string(r), r.Phrase(), r.Sentence()})
	}
	if err := pages.ExecuteTemplate(&page, "index.html", content); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	serve(w, r, "index.html", page.Bytes())
}

// serveFile serves one of the files that pages load, which are below /dashboard/.
func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := files.ReadFile(name)
	if err != nil || path.Ext(name) == ".html" {
		http.NotFound(w, r)
		return
	}
	serve(w, r, name, content)
}

// serve responds with a file. Browsers must ask each time whether it has changed, so that
// they never mix the files of two versions of the program.
func serve(w http.ResponseWriter, r *http.Request, name string, content []byte) {
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

// WritePage responds with a page that nobody may keep, since it shows what is known now. csp is
// its Content-Security-Policy.
func WritePage(w http.ResponseWriter, status int, csp string, page []byte) {
	setPageHeader(w.Header(), ".html", csp)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(page) // an error means that the client has left
}

// Refuse responds to a request for a page whose sender may not see it, in words for people.
func Refuse(w http.ResponseWriter, status int, detail string) {
	var page bytes.Buffer
	err := pages.ExecuteTemplate(&page, "refused.html", struct {
		Title, Detail string
		Token         bool
	}{http.StatusText(status), printable.Line(detail), status == http.StatusUnauthorized})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	WritePage(w, status, "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", page.Bytes())
}

// proxyFor returns the address at which the sender of a request reaches the proxy. If the
// proxy listens on every address, its host is the request's.
func (s Site) proxyFor(r *http.Request) string {
	host, port, err := net.SplitHostPort(s.Proxy.String())
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return s.Proxy.String()
	}
	asked := (&url.URL{Host: r.Host}).Hostname()
	return net.JoinHostPort(asked, port)
}
