package proxy_test

import (
	"net/netip"
	"testing"

	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/robots/preference"
)

// What a site says about use decides on tunnels like rules do.
func TestPreferencesOfTunnels(t *testing.T) {
	bot := identity.Identity{ProductTokens: []string{"MyBot"}, Purposes: []preference.Purpose{preference.AITrain}}
	byAddress := identity.Entry{Name: "a", Match: identity.Match{Clients: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Identity: bot}
	quiet := byAddress
	quiet.Purposes = nil
	const (
		none = "User-agent: *\nContent-Signal: ai-train=no\n"
		part = "User-agent: *\nContent-Signal: /a ai-train=no\n"
		all  = "User-agent: *\nAllow: /\n"
	)
	lines := []preference.Source{preference.ContentSignal, preference.ContentUsage}
	every := gate.DefaultPreferences().Sources
	for name, test := range map[string]struct {
		robots  string
		entries []identity.Entry
		def     identity.Identity
		mode    identity.Mode
		tunnels opaque.Mode
		mixed   opaque.Mixed
		sources []preference.Source
		refuse  bool // responses
		want    string
	}{
		"enforced, nothing refused":        {robots: all, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: joined},
		"enforced, everything refused":     {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: refused},
		"enforced, a part refused":         {robots: part, entries: []identity.Entry{byAddress}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"reported, a part refused":         {robots: part, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"reported, everything refused":     {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: lines, want: joined},
		"responses are looked at":          {robots: all, entries: []identity.Entry{byAddress}, mode: identity.Report, tunnels: opaque.WhenNeeded, sources: every, want: read},
		"off":                              {robots: none, entries: []identity.Entry{byAddress}, mode: identity.Off, tunnels: opaque.WhenNeeded, sources: every, want: joined},
		"without purposes":                 {robots: none, entries: []identity.Entry{quiet}, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: every, want: joined},
		"some bot declares purposes":       {robots: none, def: bot, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: lines, want: read},
		"some bot declares them, in vain":  {robots: allowsNone, def: bot, mode: identity.Enforce, tunnels: opaque.WhenNeeded, sources: every, want: refused},
		"never read, everything refused":   {robots: none, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, want: refused},
		"never read, a part refused":       {robots: part, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: refused},
		"never read, a part let through":   {robots: part, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, want: joined},
		"never read, a part reported":      {robots: part, def: bot, mode: identity.Report, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: joined},
		"never read, responses recorded":   {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, want: joined},
		"never read, responses refused":    {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.RefuseMixed, sources: every, refuse: true, want: refused},
		"never read, responses not wanted": {robots: all, def: bot, mode: identity.Enforce, tunnels: opaque.Never, mixed: opaque.AllowMixed, sources: every, refuse: true, want: joined},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *settings) {
				s.policies = newSays(test.robots)
				s.tunnels.Mode, s.tunnels.Mixed = test.tunnels, test.mixed
				s.gate.Identities = identity.Table{Entries: test.entries, Default: test.def}
				s.gate.Preferences = gate.Preferences{Mode: test.mode, Sources: test.sources}
				if test.refuse {
					s.gate.Preferences.Response = gate.Refuse
				}
			})
			if got := tunnelled(w, w.origin("https", nil), "User-Agent: MyBot\r\n"); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if test.mode == identity.Report && test.want == joined {
				w.log.WaitLine(t, nil, `"method":"CONNECT"`, `"would_refuse":true`, `"status":200`)
			}
		})
	}
}
