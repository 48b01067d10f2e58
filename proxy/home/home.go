// Package home is the web site at the proxy's own address: how to use the proxy, as text or
// as a page, and the CA's certificate.
package home

import (
	_ "embed"
	htmltemplate "html/template"
	"net"
	"net/http"
	"strings"
	"text/template"

	"robotsproxy/internal/clientsetup"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/answer"
	"robotsproxy/robots"
)

// Site is what the web site shows.
type Site struct {
	Name string // of this deployment
	CA   []byte // the certificate, as PEM
	// Identify returns the identity as which a request would be judged, and its product
	// tokens.
	Identify func(*http.Request) (identity string, tokens []string)
	// NotFound answers requests for anything else.
	NotFound http.HandlerFunc
}

// Handler serves the site: / and /ca.pem.
func (s Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.serveHome)
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Write(s.CA)
	})
	mux.Handle("/", s.NotFound)
	return mux
}

func (s Site) serveHome(w http.ResponseWriter, r *http.Request) {
	identity, tokens := s.Identify(r)
	address := addressFor(r)
	view := struct {
		Name, Address, Identity, Tokens, UserAgent string
		Clients                                    []setup
	}{s.Name, address, identity, printable.Line(strings.Join(tokens, ", ")), printable.Line(r.UserAgent()), setups(address)}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", answer.CSP)
	if answer.PrefersHTML(r.Header) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		homeHTML.Execute(w, view) // the client has left if this fails
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	homeText.Execute(w, view)
}

// addressFor is the address of the proxy that the page shows: the one by which the client
// has reached it. A Host that is not a plain host and port could be a shell command; then
// it is the local address of the connection.
func addressFor(r *http.Request) (address string) {
	if origin, err := robots.ParseOrigin("http://" + r.Host); err == nil {
		return net.JoinHostPort(origin.Host, origin.Port)
	}
	return LocalAddress(r)
}

// LocalAddress is the proxy's address, as the connection of r has come to it.
func LocalAddress(r *http.Request) string {
	return r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
}

// setup is what a client needs to use the proxy, with ca.pem beside it.
type setup struct{ Client, Commands string }

// setups are those that the page shows for the proxy at an address.
func setups(address string) []setup {
	all := []setup{
		{"all of them, on the proxy's own machine", "# with its --config or --data-dir, if it has one\neval \"$(robotsproxy env --listen " + address + ")\""},
		{"one command, by a proxy of its own", "robotsproxy run -- COMMAND"},
		{"any shell, for those below that name no proxy", "export http_proxy=http://" + address + " https_proxy=http://" + address +
			"\nexport HTTP_PROXY=http://" + address + " HTTPS_PROXY=http://" + address},
	}
	for _, c := range clientsetup.Clients {
		if commands := c.Setup(address); commands != "" {
			all = append(all, setup{c.Name, commands})
		}
	}
	return all
}

var (
	//go:embed home.html
	homeHTMLSource string
	//go:embed home.txt
	homeTextSource string

	homeHTML = htmltemplate.Must(htmltemplate.New("home").Parse(homeHTMLSource))
	homeText = template.Must(template.New("home").Parse(homeTextSource))
)
