package proxy

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

// newHome is what the proxy shows to a client that takes it for a web server: how
// to use it, and the CA certificate.
func (s *Server) newHome() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.serveHome)
	mux.HandleFunc("GET /ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Write(s.ca.PEM())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a := answer.BadRequest(http.StatusNotFound, "the proxy "+s.opts.Name+" itself has no such page")
		a.Advice = "To use it as a proxy, name it in the client's http_proxy and https_proxy. What it is, and how: GET /"
		s.answer(w, r, a)
	})
	return mux
}

func (s *Server) serveHome(w http.ResponseWriter, r *http.Request) {
	identity, tokens := s.gate.Identify(askerOf(r))
	address := addressFor(r)
	view := struct {
		Name, Address, Identity, Tokens, UserAgent string
		Clients                                    []setup
	}{s.opts.Name, address, identity, printable.Line(strings.Join(tokens, ", ")), printable.Line(r.UserAgent()), setups(address)}
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

// addressFor is the address of the proxy that its page shows: the one by which the
// client has reached it. A Host that is no plain host and port could be a command of
// a shell; then it is the address that the connection has come to.
func addressFor(r *http.Request) (address string) {
	if origin, err := robots.ParseOrigin("http://" + r.Host); err == nil {
		return net.JoinHostPort(origin.Host, origin.Port)
	}
	return localAddress(r)
}

// localAddress is the proxy's own address, as the connection of r has come to it.
func localAddress(r *http.Request) string {
	return r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()
}

// setup is what a client needs to go through the proxy with its ca.pem beside it.
type setup struct{ Client, Commands string }

// setups are those that the page shows for the proxy at address.
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
