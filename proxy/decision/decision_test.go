package decision_test

import (
	"testing"

	"robotsproxy/proxy/decision"
)

func TestWhyOfADecision(t *testing.T) {
	for want, d := range map[string]decision.Decision{
		"Disallow: /private/ (line 4)":                      {Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /private/", Line: 4, Refused: true},
		"its turn would have come after pace.max_wait":      {Judgment: decision.Allowed, Reason: decision.ByRule, Rule: "Allow: /", Line: 2, Refused: true},
		"its robots.txt cannot be had (connection refused)": {Judgment: decision.Disallowed, Reason: decision.Unreachable, Cause: "connection refused", Refused: true},
		"its robots.txt cannot be had":                      {Judgment: decision.Disallowed, Reason: decision.Unreachable, Refused: true},
		"the configuration's override":                      {Judgment: decision.Disallowed, Reason: decision.Overridden}, // in mode report
	} {
		if got := d.Why(); got != want {
			t.Errorf("%+v: %s, want %s", d, got, want)
		}
	}
}
