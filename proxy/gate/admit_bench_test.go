package gate_test

import (
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// The token of a bot that declares no purposes is not kept, so it costs no more than one that
// the configuration holds.
func TestBotsWithoutPurposesPayNothing(t *testing.T) {
	allocated := func(id identity.Identity) float64 {
		settings := gate.Settings{Identities: identity.Table{Default: id}, Preferences: gate.DefaultPreferences()}
		g := newGate(t, settings, gate.OnePolicy(rules(site)), zerolog.Nop(), nil)
		ask := ask(t, "https://example.com/private/open", "ExampleBot")
		return testing.AllocsPerRun(100, func() { g.Decide(t.Context(), ask) })
	}
	byAgent, configured := allocated(identity.Identity{}), allocated(identity.Identity{ProductTokens: []string{"ExampleBot"}})
	if byAgent != configured {
		t.Errorf("%.0f allocations with a User-Agent, %.0f with a product token", byAgent, configured)
	}
}

// BenchmarkAdmit measures a request's way through the gate, from Admit to its log line.
func BenchmarkAdmit(b *testing.B) {
	for _, decisions := range []decision.LogFilter{decision.LogNone, decision.LogAll} {
		for _, verdict := range []decision.Judgment{decision.Allowed, decision.Disallowed} {
			b.Run("log="+string(decisions)+"/verdict="+string(verdict), func(b *testing.B) {
				benchmarkAdmit(b, decisions, verdict)
			})
		}
	}
}

func benchmarkAdmit(b *testing.B, decisions decision.LogFilter, verdict decision.Judgment) {
	url := map[decision.Judgment]string{
		decision.Allowed:    "https://example.com/private/open?page=2",
		decision.Disallowed: "https://example.com/private/letters?page=2",
	}[verdict]
	target, err := robots.ParseTarget(url)
	if err != nil {
		b.Fatal(err)
	}
	ask := gate.Ask{Target: target, Method: http.MethodGet, Asker: identity.Asker{
		Addr:   netip.MustParseAddr("127.0.0.1"),
		Header: http.Header{"User-Agent": {"ExampleBot/1.0 (+https://example.org/bot)"}},
	}}
	log := zerolog.New(io.Discard).With().Timestamp().Logger()
	g, err := gate.New(gate.Settings{LogFilter: decisions}, gate.OnePolicy(rules(site)), nil, log, prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := admit(b.Context(), g, ask)
		if err != nil || p.Judgment != verdict {
			b.Fatal(p.Judgment, err)
		}
		p.Done(http.StatusOK, 1024, nil)
	}
}
