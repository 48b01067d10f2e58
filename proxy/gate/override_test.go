package gate_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
)

func override(t *testing.T, origin string, verdict gate.Action, file string) gate.Override {
	t.Helper()
	o := gate.Override{Verdict: verdict, RobotsFile: file}
	if err := o.Origin.UnmarshalText([]byte(origin)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOverrides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-robots.txt")
	if err := os.WriteFile(file, []byte("User-agent: curl\nDisallow: /own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	overrides := []gate.Override{
		override(t, "https://*.example.com", gate.Allow, ""),
		override(t, "https://closed.example.com", gate.Disallow, ""), // hidden by the first
		override(t, "https://closed.example.org", gate.Disallow, ""),
		override(t, "https://file.example.org", "", file),
	}
	for _, test := range []struct {
		url      string
		mode     identity.Mode
		judgment gate.Judgment
		reason   gate.Reason
		rule     string
	}{
		{"https://www.example.com/", identity.Enforce, gate.Allowed, gate.Overridden, ""},
		{"https://closed.example.com/", identity.Enforce, gate.Allowed, gate.Overridden, ""},
		{"https://closed.example.org/", identity.Enforce, gate.Disallowed, gate.Overridden, ""},
		{"https://closed.example.org/robots.txt", identity.Enforce, gate.Disallowed, gate.Overridden, ""},
		{"https://closed.example.org/", identity.Off, gate.Disallowed, gate.Overridden, ""},
		{"https://closed.example.org:8443/", identity.Off, gate.Allowed, gate.Exempt, ""},
		{"https://file.example.org/own/a", identity.Enforce, gate.Disallowed, gate.Overridden, "Disallow: /own"},
		{"https://file.example.org/a", identity.Enforce, gate.Allowed, gate.Overridden, ""},
		{"https://file.example.org/robots.txt", identity.Enforce, gate.Allowed, gate.Overridden, ""},
		{"https://example.net/", identity.Enforce, gate.Disallowed, gate.ByRule, "Disallow: /"},
	} {
		k := &known{policy: rules("User-agent: *\nDisallow: /")}
		g := newGate(t, gate.Settings{Identities: identity.Table{Default: identity.Identity{Mode: test.mode}}, Overrides: overrides}, k, zerolog.Nop(), nil)
		v, err := g.Decide(context.Background(), ask(t, test.url, "curl/8"))
		if err != nil {
			t.Fatal(err)
		}
		if v.Judgment != test.judgment || v.Reason != test.reason || v.Rule != test.rule {
			t.Errorf("%s: %s by %s (%s), want %s by %s (%s)", test.url, v.Judgment, v.Reason, v.Rule, test.judgment, test.reason, test.rule)
		}
		if v.Reason == gate.Overridden && (len(k.asked) > 0 || v.RobotsURL != "" || !strings.Contains(v.Why(), "operator")) {
			t.Errorf("%s: the site was asked %d times; robots_url %q; %s", test.url, len(k.asked), v.RobotsURL, v.Why())
		}
	}
}

func TestOverrideWhoseFileIsGone(t *testing.T) {
	settings := gate.Settings{Overrides: []gate.Override{override(t, "https://example.com", "", filepath.Join(t.TempDir(), "none"))}}
	if _, err := gate.New(settings, &known{}, nil, zerolog.Nop(), nil); err == nil || !strings.Contains(err.Error(), "robots_file") {
		t.Errorf("error %v", err)
	}
}

func TestOverrideValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	for key, o := range map[string]gate.Override{
		"origin: ":                  {Verdict: gate.Allow},
		"verdict: ":                 override(t, "https://example.com", "", ""),
		"robots_file: there":        override(t, "https://example.com", gate.Allow, file),
		"robots_file: open " + file: override(t, "https://example.com", "", file),
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%v, want an error about %s", err, key)
		}
	}
}

// A robots_file is cut like a live robots.txt, since half of a line is another rule.
func TestOverrideFileIsCut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-robots.txt")
	text := "User-agent: *\nDisallow: /a\nDisallow: /bcd\nDisallow: /e\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	within := int64(strings.Index(text, "cd\n"))
	for path, want := range map[string]gate.Judgment{"/a": gate.Disallowed, "/b": gate.Allowed, "/bcd": gate.Allowed, "/e": gate.Allowed} {
		g := newGate(t, gate.Settings{MaxBytes: within, Overrides: []gate.Override{override(t, "https://example.com", "", file)}}, &known{}, zerolog.Nop(), nil)
		if v, err := g.Decide(context.Background(), ask(t, "https://example.com"+path, "curl/8")); err != nil || v.Judgment != want {
			t.Errorf("%s: %s, %v; want %s", path, v.Judgment, err, want)
		}
	}
}
