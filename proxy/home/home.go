// Package home is the web site at the proxy's own address: how to use the proxy, as text or
// as a page, the CA's certificate, and a proxy auto-configuration file.
package home

import (
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"strings"

	htmltemplate "github.com/DataDog/datadog-agent/pkg/template/html"
	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"robotsproxy/internal/clientsetup"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/answer"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// Site is what the web site shows.
type Site struct {
	Name string // of this deployment
	CA   []byte // the certificate, as PEM
	// Identify returns the identity as which a request would be judged, and its name.
	Identify func(*http.Request) (*identity.Identity, string)
	// NotFound answers requests for anything else.
	NotFound http.HandlerFunc
}

// Handler serves the site: /, /ca.pem and /proxy.pac.
func (s Site) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.serveHome)
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Write(s.CA)
	})
	mux.HandleFunc("GET /proxy.pac", servePAC)
	mux.Handle("/", s.NotFound)
	return mux
}

func (s Site) serveHome(w http.ResponseWriter, r *http.Request) {
	id, name := s.Identify(r)
	at := reachedAt(r)
	view := struct {
		Name, Identity, Tokens, UserAgent string
		Purposes                          string // that it declares
		Key, Agent                        string // with which its requests are signed; "" if they are not
		URL, URLOfUser                    string // of the proxy
		Clients                           []setup
	}{Name: s.Name, Identity: name, UserAgent: printable.Line(r.UserAgent()), URL: at.URL(), URLOfUser: at.URLFor("USER:x"), Clients: setups(at)}
	view.Tokens = printable.Line(strings.Join(id.Tokens(r.UserAgent()), ", "))
	view.Purposes = purposesOf(id)
	if keys := id.Keys(); len(keys) > 0 {
		view.Key, view.Agent = keys[0].ID(), id.Agent().String()
	}
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

func purposesOf(id *identity.Identity) string {
	var words []string
	for _, purpose := range id.Purposes {
		words = append(words, string(purpose))
	}
	return strings.Join(words, ", ")
}

// servePAC serves a proxy auto-configuration file: the proxy for every URL. No way past it
// is named for when it can't be reached.
func servePAC(w http.ResponseWriter, r *http.Request) {
	at := reachedAt(r)
	way := "PROXY "
	if at.Secure {
		way = "HTTPS "
	}
	w.Header().Set("Content-Type", "application/x-ns-proxy-autoconfig")
	w.Header().Set("Cache-Control", "no-store") // it depends on Host
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, "function FindProxyForURL(url, host) {\n  return %q;\n}\n", way+at.Address)
}

// Reached is how a client has reached the proxy.
type Reached struct {
	Secure  bool   // over TLS
	Address string // host:port
}

// URL names the proxy to clients.
func (at Reached) URL() string { return at.scheme() + "://" + at.Address }

// URLFor names the proxy to clients that state a user, and perhaps a password.
func (at Reached) URLFor(userinfo string) string {
	return at.scheme() + "://" + userinfo + "@" + at.Address
}

func (at Reached) scheme() string {
	if at.Secure {
		return "https"
	}
	return "http"
}

// reachedAt is how the client of a request to the site has reached the proxy: by the Host
// that it names. A Host that is not a plain host and port could be a shell command; then it
// is [LocallyAt].
func reachedAt(r *http.Request) Reached {
	at := LocallyAt(r)
	if origin, err := robots.ParseOrigin(at.scheme() + "://" + r.Host); err == nil {
		at.Address = net.JoinHostPort(origin.Host, origin.Port)
	}
	return at
}

// LocallyAt is how the client of a request has reached the proxy, by the local address of
// its connection.
func LocallyAt(r *http.Request) Reached {
	return Reached{r.TLS != nil, r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()}
}

// setup is what a client needs to use the proxy, with ca.pem beside it.
type setup struct{ Client, Commands string }

// setups are those that the page shows.
func setups(at Reached) []setup {
	env := "robotsproxy env --listen " + at.Address
	if at.Secure {
		env = "robotsproxy env --tls --listen " + at.Address
	}
	all := []setup{
		{"all of them, on the proxy's own machine", "# with its --config or --data-dir, if it has one\neval \"$(" + env + ")\""},
		{"one command, by a proxy of its own", "robotsproxy run -- COMMAND"},
		{"any shell, for those below that name no proxy", "export http_proxy=" + at.URL() + " https_proxy=" + at.URL() +
			"\nexport HTTP_PROXY=" + at.URL() + " HTTPS_PROXY=" + at.URL()},
	}
	if at.Secure {
		all = append(all, setup{"those that trust one file alone", "cat ca.pem ROOT.pem > both.pem   # ROOT.pem: the root of the proxy's own certificate"})
	}
	for _, c := range clientsetup.Clients {
		if commands := c.Setup(at.Address, at.Secure); commands != "" {
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
