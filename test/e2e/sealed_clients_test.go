package e2e

import (
	"net"
	"testing"
)

// sealedSite is where a site is in the network of a test, and the user whose sealed client
// asks for its pages.
type sealedSite struct {
	scheme, host, address string
	uid                   int
}

// sealedSites are of both schemes, both families and two users, on ports of which run.ports
// has three by default.
var sealedSites = []sealedSite{
	{"http", "four.example.com", "192.0.2.2:80", 0},
	{"https", "four.example.com", "192.0.2.2:443", 65534},
	{"http", "six.example.com:8080", "[2001:db8::3]:8080", 65534},
	{"https", "six.example.com:7443", "[2001:db8::3]:7443", 0},
}

func (s sealedSite) port() string {
	_, port, _ := net.SplitHostPort(s.address)
	return port
}

// get has the site's user run a client sealed, and returns what the client and the program
// wrote.
func (s sealedSite) get(t *testing.T, c client, path string, env ...string) string {
	t.Helper()
	w := newWorld(t)
	command := append([]string{"--"}, c.command...)
	e := w.sealed(env, append(command, s.scheme+"://"+s.host+path)...)
	w.asUser(t, e, s.uid)
	e.Dir = w.temp
	return e.output(t)
}

// obeysSealed tries a client at each of the sites.
func (c client) obeysSealed(t *testing.T, sites []sealedSite, env ...string) {
	for _, s := range sites {
		t.Run(c.name+" on "+s.port(), func(t *testing.T) {
			site := newOriginAt(t, s.address, s.scheme, shop(), repositories(t))
			c.obeys(t, site, func(path string) string { return s.get(t, c, path, env...) })
		})
	}
}

// Clients that read no proxy variables obey all the same if they are sealed. make
// test-clients tries many more.
func TestSealedClientsObey(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	file := copied(t, "direct")
	for _, c := range []client{
		{name: "wget", command: []string{"wget", "--no-verbose", "--server-response", "--output-document=-", "--no-proxy"}},
		{name: "git", command: []string{file("clone.sh")}, pages: shopRepositories, refusal: `returned error: 403`},
		{name: "Go", command: []string{compiled(t, file("fetch.go"))}},
	} {
		c.obeysSealed(t, sealedSites)
	}
	chromium := client{name: "Chromium", command: []string{file("chromium.sh")}, refusal: answerPage}
	chromium.obeysSealed(t, sealedSites[:2]) // it is slow
}
