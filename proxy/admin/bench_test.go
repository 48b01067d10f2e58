package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/admin"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
)

// BenchmarkDecision measures what the gate does for a request: alone, with an admin server
// that records decisions, and with a watcher of its stream.
func BenchmarkDecision(b *testing.B) {
	rules := &policy.Policy{Outcome: policy.Rules, SHA256: "5feceb66ffc86f38", File: robots.Parse([]byte("User-agent: *\nDisallow: /private\n"))}
	target, err := robots.ParseTarget("https://www.example.com/private/page?of=some&length=1")
	if err != nil {
		b.Fatal(err)
	}
	ask := gate.Ask{Target: target, Asker: identity.Asker{Header: http.Header{"User-Agent": {"ExampleBot/1.0 (+https://example.com/bot)"}}}, Method: "GET"}
	for _, c := range []struct {
		name            string
		admin, watching bool
	}{{"alone", false, false}, {"kept", true, false}, {"watched", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			g, err := gate.New(gate.Settings{LogFilter: decision.LogNone}, gate.OnePolicy(rules), nil, zerolog.Nop(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if c.admin {
				a := admin.New(admin.Setup{Gate: g})
				defer a.Close()
				if c.watching {
					watch(b, a)
				}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, _ := g.Admit(context.Background(), ask)
					p.Wait(context.Background())
					p.Done(403, 100, nil)
				}
			})
		})
	}
}

// watch reads the stream of decisions until b ends.
func watch(b *testing.B, a *admin.Admin) {
	server := httptest.NewServer(a)
	b.Cleanup(server.Close)
	resp, err := http.Get(server.URL + "/api/v1/decisions/stream")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { resp.Body.Close() })
	go io.Copy(io.Discard, resp.Body)
}
