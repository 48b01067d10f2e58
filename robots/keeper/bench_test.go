package keeper

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"robotsproxy/robots/keeper/memory"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
)

// BenchmarkHit is what most requests cost: a policy from memory, and the match.
func BenchmarkHit(b *testing.B) {
	s := &site{status: 200, body: someRules}
	k, err := New(Setup{Options: policy.Defaults(), Memory: 64 << 20, Store: store.NewMemory(0), Transport: s})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	by := Sender{UserAgent: "ExampleBot/1.0"}
	if _, err := k.Policy(b.Context(), exampleOrg, by); err != nil {
		b.Fatal(err)
	}
	tokens := []string{"ExampleBot"}
	b.ReportAllocs()
	for b.Loop() {
		p, err := k.Policy(b.Context(), exampleOrg, by)
		if err != nil {
			b.Fatal(err)
		}
		group, _ := p.File.Group(tokens)
		if rule, matches := group.Match("/private/letters?page=2"); !matches || rule.Allow {
			b.Fatal(rule)
		}
	}
}

// BenchmarkStored is a policy from the store, where memory holds no policy with its text.
func BenchmarkStored(b *testing.B) {
	k := benchKeeper(b, &site{status: 200, body: someRules})
	if _, err := k.Policy(b.Context(), exampleOrg, Sender{}); err != nil {
		b.Fatal(err)
	}
	k.store.Close() // which writes it
	b.ReportAllocs()
	for b.Loop() {
		k.memory.Remove(memory.Key{Origin: exampleOrg})
		k.texts = new(memory.Texts)
		if p, err := k.Policy(b.Context(), exampleOrg, Sender{}); err != nil || p.Outcome != policy.Rules {
			b.Fatal(p, err)
		}
	}
}

// BenchmarkColdFetch is the first request to an origin, a server on loopback, over a new
// connection. No other origin has its text.
func BenchmarkColdFetch(b *testing.B) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s# %d\n", someRules, served.Add(1))
	}))
	defer server.Close()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	k := benchKeeper(b, transport)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if p, err := k.Policy(b.Context(), someOrigin(i), Sender{}); err != nil || p.Outcome != policy.Rules {
			b.Fatal(p, err)
		}
	}
}

// benchKeeper is a keeper with SQLite as its store.
func benchKeeper(b *testing.B, transport http.RoundTripper) *Keeper {
	s, err := sqlitestore.Open(b.Context(), store.Defaults(), b.TempDir(), zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	k, err := New(Setup{Options: policy.Defaults(), Memory: 64 << 20, Store: s, Transport: transport})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		k.Close()
		s.Close()
	})
	return k
}
