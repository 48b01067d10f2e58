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

	"robotsproxy/proxy/gate"
)

// dashboardFiles are the page that people look at. It needs nothing but them and the
// API.
//
//go:embed dashboard
var dashboardFiles embed.FS

var dashboardPage = template.Must(template.ParseFS(dashboardFiles, "dashboard/index.html"))

// dashboardCSP has a browser refuse whatever is not one of the page's own files:
// what sites and clients wrote is shown there. The last two forbid scripts to turn
// text into markup at all.
const dashboardCSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// fileTypes are named here since the system's table may say anything, and nothing is
// sniffed.
var fileTypes = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// page serves the page at /.
func (s Setup) page(w http.ResponseWriter, r *http.Request) {
	var page bytes.Buffer
	content := struct {
		Proxy   string
		Reasons []gate.Reason
	}{s.proxyFor(r), gate.Reasons()}
	if err := dashboardPage.Execute(&page, content); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	serveFile(w, r, "index.html", page.Bytes())
}

// pageFile serves the page's other files, below /dashboard/.
func (s Setup) pageFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, err := dashboardFiles.ReadFile("dashboard/" + name)
	if err != nil || name == "index.html" {
		http.NotFound(w, r)
		return
	}
	serveFile(w, r, name, content)
}

// serveFile answers with a file of the page. A browser asks each time whether it is
// still the same, so that another version of the program is never mixed with this one.
func serveFile(w http.ResponseWriter, r *http.Request, name string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", fileTypes[path.Ext(name)])
	h.Set("Content-Security-Policy", dashboardCSP)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(content))[:32]))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// proxyFor is the proxy's address as who sent a request may name it: where the proxy
// listens on every address, it is the host under which this server was asked.
func (s Setup) proxyFor(r *http.Request) string {
	host, port, err := net.SplitHostPort(s.Proxy.String())
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return s.Proxy.String()
	}
	asked := (&url.URL{Host: r.Host}).Hostname()
	return net.JoinHostPort(asked, port)
}
