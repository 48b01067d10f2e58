package main

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strconv"
)

// Numbers of clients at once: those of one scraper, unless a case names more. What a request
// costs depends on the number, and not in the same way for all proxies.
const (
	clients = 8
	crowd   = 64
	many    = 256
	throng  = 1024
)

// benchCase is a kind of load that consists of requests.
type benchCase struct {
	name  string
	tls   bool // the proxy reads inside TLS
	http2 bool // the client speaks HTTP/2
	apart bool // it leaves many connections behind, so it runs with proxies of its own, and what they hold at the end is reported

	workers func(s *site, r *running) []worker
	budget  func(sc scale) budget
}

const (
	plainKept   = "HTTP, kept-alive connections"
	plainCrowd  = "HTTP, 64 kept-alive connections"
	plainNew    = "HTTP, a new connection each"
	secureKept  = "HTTPS over HTTP/1.1, kept-alive tunnels"
	secureCrowd = "HTTPS over HTTP/1.1, 64 kept-alive tunnels"
	secureMany  = "HTTPS over HTTP/1.1, 256 kept-alive tunnels"
	throngKept  = "HTTPS over HTTP/1.1, 1,024 kept-alive tunnels"
	secureH2    = "HTTPS over HTTP/2"
	crowdH2     = "HTTPS over HTTP/2, 64 clients"
	tunnelNew   = "HTTPS, a new CONNECT and TLS each"
	tunnelAgain = "HTTPS, a new CONNECT each, TLS resumed"
	manyOrigins = "HTTP, distinct origins in turn"
	originsH2   = "HTTPS over HTTP/2, distinct origins in turn"
)

// growthCases are those that measure how throughput grows with the processors.
var growthCases = []string{plainCrowd, secureCrowd, crowdH2}

func benchCases() []benchCase {
	each := func(sc scale) budget { return sc.each }
	plain := func(n int, each bool) func(*site, *running) []worker {
		return func(s *site, r *running) []worker { return s.plainClients(r, n, each) }
	}
	tunnels := func(n int, each bool) func(*site, *running) []worker {
		return func(s *site, r *running) []worker { return s.tunnelClients(r, n, clientTLS("http/1.1"), each) }
	}
	h2 := func(n int) func(*site, *running) []worker {
		return func(s *site, r *running) []worker { return s.h2Clients(r, n) }
	}
	return []benchCase{
		{name: plainKept, budget: each, workers: plain(clients, false)},
		{name: plainCrowd, budget: each, workers: plain(crowd, false)},
		{name: plainNew, budget: each, workers: plain(clients, true)},
		{name: secureKept, tls: true, budget: each, workers: tunnels(clients, false)},
		{name: secureCrowd, tls: true, budget: each, workers: tunnels(crowd, false)},
		{name: secureMany, tls: true, budget: each, workers: tunnels(many, false)},
		{name: secureH2, tls: true, http2: true, budget: each, workers: h2(clients)},
		{name: crowdH2, tls: true, http2: true, budget: each, workers: h2(crowd)},
		{name: tunnelNew, tls: true, budget: each, workers: tunnels(clients, true)},
		{name: tunnelAgain, tls: true, budget: each, workers: func(s *site, r *running) []worker {
			config := clientTLS("http/1.1")
			config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			return s.tunnelClients(r, clients, config, true)
		}},
		{name: manyOrigins, budget: func(sc scale) budget { return budget{requests: sc.origins} }, workers: (*site).originClients},
		{name: throngKept, tls: true, apart: true, budget: func(sc scale) budget { return budget{requests: sc.throng} }, workers: tunnels(throng, false)},
		{name: originsH2, tls: true, http2: true, apart: true, budget: func(sc scale) budget { return budget{requests: sc.origins} }, workers: (*site).h2OriginClients},
	}
}

// measures reports whether the case is measured with a kind of proxy, and why not if the
// report must say so.
func (c *benchCase) measures(k *kind) (why string, ok bool) {
	switch {
	case k.cases != nil && !slices.Contains(k.cases, c.name):
		return "", false
	case c.tls && k.noTLS != "":
		return k.noTLS, false
	case c.http2 && k.noHTTP2 != "":
		return k.noHTTP2, false
	}
	return "", true
}

func (s *site) plain() string  { return "127.0.0.1:" + s.ports.Plain }
func (s *site) secure() string { return "localhost:" + s.ports.Secure }

func always(request []byte) func() []byte { return func() []byte { return request } }

func (s *site) plainClients(r *running, n int, each bool) []worker {
	request := get("http://"+s.plain()+allowedPath, s.plain())
	workers := make([]worker, n)
	for i := range workers {
		workers[i] = &client{proxy: r.address, each: each, next: always(request)}
	}
	return workers
}

func (s *site) tunnelClients(r *running, n int, config *tls.Config, each bool) []worker {
	workers := make([]worker, n)
	for i := range workers {
		workers[i] = s.tunnelClient(r, config, each, allowedPath)
	}
	return workers
}

func (s *site) tunnelClient(r *running, config *tls.Config, each bool, path string) *client {
	return &client{proxy: r.address, tunnel: s.secure(), tls: config, each: each, next: always(get(path, s.secure()))}
}

// h2Clients returns clients that share two connections.
func (s *site) h2Clients(r *running, n int) []worker {
	transports := []*http.Transport{newH2Transport(r.address), newH2Transport(r.address)}
	workers := make([]worker, n)
	for i := range workers {
		workers[i] = &h2Client{&http.Client{Transport: transports[i%len(transports)]}, "https://" + s.secure() + allowedPath}
	}
	return workers
}

// originClients returns clients that ask for a page of another origin each time: the site's
// origin by a loopback address that the proxy has not been asked for.
func (s *site) originClients(r *running) []worker {
	next := func() []byte {
		host := r.nextOrigin() + ":" + s.ports.Plain
		return get("http://"+host+allowedPath, host)
	}
	workers := make([]worker, clients)
	for i := range workers {
		workers[i] = &client{proxy: r.address, next: next}
	}
	return workers
}

// h2OriginClients returns clients that do the same over HTTP/2, with a new tunnel each time.
func (s *site) h2OriginClients(r *running) []worker {
	workers := make([]worker, clients)
	for i := range workers {
		workers[i] = &h2OriginClient{proxy: r.address, next: func() string {
			return "https://" + r.nextOrigin() + ":" + s.ports.Secure + allowedPath
		}}
	}
	return workers
}

// nextOrigin returns a loopback address that the proxy has not been asked for.
func (r *running) nextOrigin() string {
	n := int(r.asked.Add(1))
	return "127." + strconv.Itoa(1+n>>16) + "." + strconv.Itoa(n>>8&255) + "." + strconv.Itoa(n&255)
}
