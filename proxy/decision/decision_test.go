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
		// In a mode report:
		"the configuration's override":         {Judgment: decision.Disallowed, Reason: decision.Overridden, WouldRefuse: true},
		"Disallow: /a (line 3)":                {Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /a", Line: 3, WouldRefuse: true},
		"content-signal: ai-train=no (line 5)": {Judgment: decision.Allowed, Reason: decision.ByRule, Rule: "Allow: /", Line: 3, Preference: "content-signal: ai-train=no", PreferenceLine: 5, WouldRefuse: true},
	} {
		if got := d.Why(); got != want {
			t.Errorf("%+v: %s, want %s", d, got, want)
		}
	}
}
