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
	settings := gate.Settings{Overrides: []gate.Override{override(t, "https://example.com", "", filepath.Join(t.TempDir(), "none"))}}
	if _, err := gate.New(settings, &known{}, nil, zerolog.Nop(), nil); err == nil || !strings.Contains(err.Error(), "robots_file") {
		t.Errorf("error %v", err)
	}
}

func TestOverrideValidate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	with := func(reason, by string) gate.Override {
		o := override(t, "https://example.com", gate.Allow, "")
		o.Reason, o.By = reason, by
		return o
	}
	if err := with(strings.Repeat("é", 500), strings.Repeat("é", 100)).Validate(); err != nil {
		t.Error(err)
	}
	for key, o := range map[string]gate.Override{
		"origin: ":                  {Verdict: gate.Allow},
		"verdict: ":                 override(t, "https://example.com", "", ""),
		"robots_file: there":        override(t, "https://example.com", gate.Allow, file),
		"robots_file: open " + file: override(t, "https://example.com", "", file),

		"reason: it has 501 characters; write 500 at most":              with(strings.Repeat("é", 501), ""),
		"by: it has 101 characters; write 100 at most":                  with("", strings.Repeat("é", 101)),
		`reason: "a\nb" has characters that can't be shown`:             with("a\nb", ""),
		`reason: "\x1b[2J" has characters that can't be shown`:          with("\x1b[2J", ""),
		`by: "\u202eadA" has characters that can't be shown; write pla`: with("", "\u202eadA"),
		`by: "\xff" has characters that can't be shown`:                 with("", "\xff"),
		"reason: it is blank; write a text, or remove the key":          with("  ", ""),
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%v, want an error about %s", err, key)
		}
	}
}

func TestExpiry(t *testing.T) {
	for text, want := range map[string]struct{ end, shown string }{
		"2026-12-31":                {"2027-01-01T00:00:00Z", "2026-12-31"},
		"2028-02-29":                {"2028-03-01T00:00:00Z", "2028-02-29"},
		"2026-12-31T18:30:00Z":      {"2026-12-31T18:30:00Z", "2026-12-31T18:30:00Z"},
		"2027-01-01T01:00:00+01:00": {"2027-01-01T00:00:00Z", "2026-12-31"},
		"2026-12-31T23:00:00-05:00": {"2027-01-01T04:00:00Z", "2027-01-01T04:00:00Z"},
	} {
		var e gate.Expiry
		if err := e.UnmarshalText([]byte(text)); err != nil || e.Time().Format(time.RFC3339) != want.end || e.String() != want.shown {
			t.Errorf("%s ends at %v and reads %s, %v; want %v", text, e.Time(), e, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                     "neither a date nor a time",
		"soon":                 "neither a date nor a time",
		"31.12.2026":           "neither a date nor a time",
		"2026-02-30":           "neither a date nor a time",
		"2026-12-31 18:30":     "neither a date nor a time",
		"2026-12-31T18:30":     "neither a date nor a time",
		"0000-12-31":           "out of range",
		"0001-01-01T00:00:00Z": "out of range",
		"9999-12-31":           "out of range",
	} {
		var e gate.Expiry
		if err := e.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || !e.Time().IsZero() {
			t.Errorf("%s ends at %v, %v; want %s", text, e.Time(), err, want)
		}
	}
}

// expiring returns an override that ends after some time.
func expiring(t *testing.T, origin string, verdict gate.Action, after time.Duration) gate.Override {
	t.Helper()
	o := override(t, origin, verdict, "")
	if err := o.Expires.UnmarshalText([]byte(time.Now().Add(after).Format(time.RFC3339))); err != nil {
		t.Fatal(err)
	}
	return o
}

// When an override ends, what counts is the next that matches, and in the end the site's word:
// for requests and for tunnels, of the same gate.
func TestOverridesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := expiring(t, "https://example.com", gate.Allow, time.Hour)
		first.Reason, first.By = "the first", "Ada"
		second := expiring(t, "https://*.com", gate.Disallow, 2*time.Hour)
		second.Reason = "the second"
		g := newGate(t, gate.Settings{Overrides: []gate.Override{first, second}}, &known{policy: rules("User-agent: *\nAllow: /")}, zerolog.Nop(), nil)
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
		endless := override(t, "https://endless.example", gate.Allow, "")
		late := expiring(t, "https://late.example", gate.Allow, 9*day)
		var log logtest.Buffer
		g := newGate(t, gate.Settings{Overrides: []gate.Override{endless, late}}, &known{}, zerolog.New(&log), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.WarnOfOverrides(ctx)
		}()
		for after, want := range map[time.Duration]string{
			0: "", 2*day - 1: "", 2 * day: "applies until 2000-01-09 only", 9*day - 1: "applies until 2000-01-09 only", 9 * day: "applied until 2000-01-09 and no longer does",
		} {
			if got := late.Warning(began.Add(after)); !strings.Contains(got, want) || (got == "") != (want == "") {
				t.Errorf("after %v: %q, want %q", after, got, want)
			}
			if got := endless.Warning(began.Add(after)); got != "" {
				t.Errorf("without an end: %s", got)
			}
		}
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
		o := override(t, "https://example.com", map[string]gate.Action{"": gate.Disallow}[test.file], test.file)
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
		settings.Overrides = []gate.Override{o}
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
		g := newGate(t, gate.Settings{MaxBytes: within, Overrides: []gate.Override{override(t, "https://example.com", "", file)}}, &known{}, zerolog.Nop(), nil)
		if v, err := g.Decide(context.Background(), ask(t, "https://example.com"+path, "curl/8")); err != nil || v.Judgment != want {
			t.Errorf("%s: %s, %v; want %s", path, v.Judgment, err, want)
		}
	}
}
