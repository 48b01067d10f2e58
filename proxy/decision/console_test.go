package decision_test

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
)

// Each decision has a line that people read, which begins with the time.
func TestConsole(t *testing.T) {
	const page = "https://shop.example.com/cart"
	rule := decision.Decision{Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /cart", Line: 3, Status: 403, Refused: true, RobotsSHA256: "0a1b"}
	allowed := decision.Decision{Judgment: decision.Allowed, Reason: decision.NoRule, Status: 200}
	for _, test := range []struct {
		name            string
		d               decision.Decision
		change          func(*decision.Decision)
		colour, details bool
		want            string // after the time
	}{
		{"refused", rule, nil, false, false, "✗ 403 GET " + page + "  Disallow: /cart (line 3)  AcmeBot"},
		{"in colour", rule, nil, true, false, "\x1b[31m✗ 403\x1b[0m GET " + page + "  \x1b[31mDisallow: /cart (line 3)\x1b[0m  AcmeBot"},
		{"with details", rule, nil, false, true, "✗ 403 GET " + page + "  Disallow: /cart (line 3)  AcmeBot  robots.txt 0a1b"},
		{"allowed", allowed, nil, false, true, "✓ 200 GET " + page + "  no rule matches  AcmeBot"},
		{"mode report", rule, func(d *decision.Decision) { d.Status, d.Refused = 200, false }, false, false, "! 200 GET " + page + "  Disallow: /cart (line 3), let through (mode report)  AcmeBot"},
		{"the client left", allowed, func(d *decision.Decision) { d.Status, d.Error = 0, "context canceled" }, false, false, "✓ --- GET " + page + "  no rule matches  AcmeBot  context canceled"},
		{"paced", allowed, func(d *decision.Decision) { d.PacedMS, d.WaitMS = 4012, 4020 }, false, false, "✓ 200 GET " + page + "  no rule matches  AcmeBot  after 4s for its turn"},
		{"paced for an instant", allowed, func(d *decision.Decision) { d.PacedMS = 3 }, false, false, "✓ 200 GET " + page + "  no rule matches  AcmeBot"},
		{"turned away", allowed, func(d *decision.Decision) { d.Status, d.Edge = 403, decision.TurnedAway }, false, false, "✓ 403 GET " + page + "  no rule matches  AcmeBot  the site itself refuses it"},
		{"priced", allowed, func(d *decision.Decision) { d.Status, d.Edge, d.Price = 402, decision.Priced, "USD 0.01" }, false, false, "✓ 402 GET " + page + "  no rule matches  AcmeBot  the site wants to be paid: USD 0.01"},
		{"hostile", rule, func(d *decision.Decision) { d.Agent, d.Rule = "\x1b[2J", "Disallow: /\u202e" }, false, false, "✗ 403 GET " + page + `  Disallow: /\u202e (line 3)  \x1b[2J`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			recorder := decision.NewRecorder(zerolog.New(&log).With().Timestamp().Logger(), nil)
			d := test.d
			d.Client, d.Method, d.URL, d.Agent, d.Identity = netip.IPv6Loopback(), "GET", page, "AcmeBot", "default"
			if test.change != nil {
				test.change(&d)
			}
			recorder.Record(&d, time.Second, decision.LogAll)
			got, ok := decision.Console(log.Bytes(), test.colour, test.details)
			when, got, _ := strings.Cut(strings.TrimPrefix(got, "\x1b[90m"), " ")
			when = strings.TrimSuffix(when, "\x1b[0m")
			if _, err := time.Parse(time.TimeOnly, when); !ok || err != nil || got != test.want {
				t.Errorf("%t, %v: got\n%q, want\n%q", ok, err, got, test.want)
			}
		})
	}
	for _, line := range []string{`{"level":"info","message":"serving"}`, `{"message":"request"}`, `{"url":"x","message":"request`, "request"} {
		if text, ok := decision.Console([]byte(line), false, false); ok {
			t.Errorf("%s is shown as %q", line, text)
		}
	}
}
