package gate_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/internal/logtest"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
)

func overriding(t *testing.T, origin string, verdict override.Action, file string) override.Override {
	t.Helper()
	o := override.Override{Verdict: verdict, RobotsFile: file}
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
	overrides := []override.Override{
		overriding(t, "https://*.example.com", override.Allow, ""),
		overriding(t, "https://closed.example.com", override.Disallow, ""), // hidden by the first
		overriding(t, "https://closed.example.org", override.Disallow, ""),
		overriding(t, "https://file.example.org", "", file),
	}
	for _, test := range []struct {
		url      string
		mode     identity.Mode
		judgment decision.Judgment
		reason   decision.Reason
		rule     string
	}{
		{"https://www.example.com/", identity.Enforce, decision.Allowed, decision.Overridden, ""},
		{"https://closed.example.com/", identity.Enforce, decision.Allowed, decision.Overridden, ""},
		{"https://closed.example.org/", identity.Enforce, decision.Disallowed, decision.Overridden, ""},
		{"https://closed.example.org/robots.txt", identity.Enforce, decision.Disallowed, decision.Overridden, ""},
		{"https://closed.example.org/", identity.Off, decision.Disallowed, decision.Overridden, ""},
		{"https://closed.example.org:8443/", identity.Off, decision.Allowed, decision.Exempt, ""},
		{"https://file.example.org/own/a", identity.Enforce, decision.Disallowed, decision.Overridden, "Disallow: /own"},
		{"https://file.example.org/a", identity.Enforce, decision.Allowed, decision.Overridden, ""},
		{"https://file.example.org/robots.txt", identity.Enforce, decision.Allowed, decision.Overridden, ""},
		{"https://example.net/", identity.Enforce, decision.Disallowed, decision.ByRule, "Disallow: /"},
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
		if v.Reason == decision.Overridden && (len(k.asked) > 0 || v.RobotsURL != "" || !strings.Contains(v.Why(), "operator")) {
			t.Errorf("%s: the site was asked %d times; robots_url %q; %s", test.url, len(k.asked), v.RobotsURL, v.Why())
		}
	}
}

func TestOverrideWhoseFileIsGone(t *testing.T) {
	settings := gate.Settings{Overrides: []override.Override{overriding(t, "https://example.com", "", filepath.Join(t.TempDir(), "none"))}}
	if _, err := gate.New(settings, &known{}, nil, zerolog.Nop(), nil); err == nil || !strings.Contains(err.Error(), "robots_file") {
		t.Errorf("error %v", err)
	}
}

// expiring returns an override that ends after some time.
func expiring(t *testing.T, origin string, verdict override.Action, after time.Duration) override.Override {
	t.Helper()
	o := overriding(t, origin, verdict, "")
	if err := o.Expires.UnmarshalText([]byte(time.Now().Add(after).Format(time.RFC3339))); err != nil {
		t.Fatal(err)
	}
	return o
}

// When an override ends, what counts is the next that matches, and in the end the site's word:
// for requests and for tunnels, of the same gate.
func TestOverridesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := expiring(t, "https://example.com", override.Allow, time.Hour)
		first.Reason, first.By = "the first", "Ada"
		second := expiring(t, "https://*.com", override.Disallow, 2*time.Hour)
		second.Reason = "the second"
		g := newGate(t, gate.Settings{Overrides: []override.Override{first, second}}, &known{policy: rules("User-agent: *\nAllow: /")}, zerolog.Nop(), nil)
		for _, want := range []struct {
			after    time.Duration
			judgment decision.Judgment
			grounds  string
		}{
			{0, decision.Allowed, "the first"},
			{time.Hour - 1, decision.Allowed, "the first"},
			{time.Hour, decision.Disallowed, "the second"},
			{2*time.Hour - 1, decision.Disallowed, "the second"},
			{2 * time.Hour, decision.Allowed, ""},
		} {
			time.Sleep(time.Until(began.Add(want.after)))
			question := ask(t, "https://example.com/", "curl/8")
			v, err := g.Decide(t.Context(), question)
			if err != nil || v.Judgment != want.judgment || v.OverrideReason != want.grounds || (v.Reason == decision.Overridden) != (want.grounds != "") {
				t.Errorf("after %v: %s by %s (%s), %v; want %s (%s)", want.after, v.Judgment, v.Reason, v.OverrideReason, err, want.judgment, want.grounds)
			}
			tunnel, err := g.AdmitOpaque(t.Context(), question, decision.Disallowed)
			if err != nil || tunnel.Judgment != want.judgment {
				t.Errorf("after %v, a tunnel is %v, %v; want %s", want.after, tunnel, err, want.judgment)
			}
		}
	})
}

// began is when the clock of a synctest bubble begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestWarningsOfOverridesThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		endless := overriding(t, "https://endless.example", override.Allow, "")
		late := expiring(t, "https://late.example", override.Allow, 9*day)
		var log logtest.Buffer
		g := newGate(t, gate.Settings{Overrides: []override.Override{endless, late}}, &known{}, zerolog.New(&log), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.WarnOfOverrides(ctx)
		}()
		for n := range 12 {
			time.Sleep(time.Until(began.Add(time.Duration(n)*day + time.Hour)))
			synctest.Wait()
			if got, want := len(log.Lines(`"level":"warn"`)), max(0, n-1); got != want {
				t.Errorf("%d warnings after %d days, want %d:\n%s", got, n, want, log.String())
			}
		}
		if len(log.Lines("applies until 2000-01-09 only")) != 7 || len(log.Lines("endless")) > 0 {
			t.Error(log.String())
		}
		cancel()
		<-ended
	})
}

func TestWhyAnOverrideIsThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-robots.txt")
	if err := os.WriteFile(file, []byte("User-agent: *\nDisallow: /own\nContent-Signal: /page ai-train=no\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ path, file, reason, by, expires, why string }{
		{"/", "", "", "", "", "the operator's own word on https://example.com"},
		{"/", "", "by contract", "", "", "the operator's own word on https://example.com: by contract"},
		{"/", "", "by contract", "Ada", "2101-02-03", "the operator's own word on https://example.com, by Ada until 2101-02-03: by contract"},
		{"/", "", "", "", "2101-02-03", "the operator's own word on https://example.com, until 2101-02-03"},
		{"/own", file, "by contract", "Ada", "", `"Disallow: /own" on line 2 of ` + file + ", the operator's own robots.txt for https://example.com, by Ada: by contract"},
		{"/page", file, "by contract", "Ada", "2101-02-03", "content-signal: /page ai-train=no on line 3 of " + file + ", the operator's own robots.txt for https://example.com, by Ada until 2101-02-03: by contract"},
	} {
		o := overriding(t, "https://example.com", map[string]override.Action{"": override.Disallow}[test.file], test.file)
		o.Reason, o.By = test.reason, test.by
		if test.expires != "" {
			if err := o.Expires.UnmarshalText([]byte(test.expires)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		settings := preferring(identity.Enforce, trainer)
		settings.Overrides = []override.Override{o}
		g := newGate(t, settings, &known{}, zerolog.Nop(), nil)
		if v, err := g.Decide(t.Context(), ask(t, "https://example.com"+test.path, "curl/8")); err != nil || v.Why() != test.why {
			t.Errorf("got  %s, %v\nwant %s", v.Why(), err, test.why)
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
	for path, want := range map[string]decision.Judgment{"/a": decision.Disallowed, "/b": decision.Allowed, "/bcd": decision.Allowed, "/e": decision.Allowed} {
		g := newGate(t, gate.Settings{MaxBytes: within, Overrides: []override.Override{overriding(t, "https://example.com", "", file)}}, &known{}, zerolog.Nop(), nil)
		if v, err := g.Decide(context.Background(), ask(t, "https://example.com"+path, "curl/8")); err != nil || v.Judgment != want {
			t.Errorf("%s: %s, %v; want %s", path, v.Judgment, err, want)
		}
	}
}
