package gate_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
	"robotsproxy/robots/tdmrep"
)

const noTraining = "User-agent: *\nAllow: /\nContent-Signal: search=yes, ai-train=no\n"

// trainer is a bot that trains models.
var trainer = identity.Identity{Purposes: []preference.Purpose{preference.AITrain}}

// preferring are settings with a mode of preferences and every source, for one identity.
func preferring(mode identity.Mode, id identity.Identity) gate.Settings {
	s := gate.Settings{Identities: identity.Table{Default: id}, Preferences: gate.DefaultPreferences()}
	s.Preferences.Mode = mode
	return s
}

func TestPreferences(t *testing.T) {
	with := func(change func(*identity.Identity)) identity.Identity {
		id := trainer
		change(&id)
		return id
	}
	ofSources := func(sources ...preference.Source) gate.Settings {
		s := preferring(identity.Enforce, trainer)
		s.Preferences.Sources = sources
		return s
	}
	strict := preferring(identity.Enforce, trainer)
	strict.StrictPaths = true
	for name, test := range map[string]struct {
		settings gate.Settings
		policy   *policy.Policy
		path     string
		judgment decision.Judgment
		reason   decision.Reason
		why      string
	}{
		"refused":                    {preferring(identity.Enforce, trainer), rules(noTraining), "/", decision.Disallowed, decision.ByPreference, "content-signal: ai-train=no on line 3 of https://example.com/robots.txt"},
		"by a path":                  {preferring(identity.Enforce, trainer), rules("User-agent: *\nContent-Usage: /a train-ai=n\n"), "/a/b", decision.Disallowed, decision.ByPreference, "content-usage: /a train-ai=n on line 2 of https://example.com/robots.txt"},
		"of another path":            {preferring(identity.Enforce, trainer), rules("User-agent: *\nContent-Usage: /a train-ai=n\n"), "/b", decision.Allowed, decision.NoRule, ""},
		"before any group":           {preferring(identity.Enforce, trainer), rules("Content-Usage: train-ai=n\n"), "/b", decision.Disallowed, decision.ByPreference, "content-usage: train-ai=n on line 1 of https://example.com/robots.txt"},
		"a rule comes first":         {preferring(identity.Enforce, trainer), rules(noTraining + "Disallow: /never\n"), "/never", decision.Disallowed, decision.ByRule, ""},
		"for another purpose":        {preferring(identity.Enforce, with(func(id *identity.Identity) { id.Purposes = []preference.Purpose{preference.Search} })), rules(noTraining), "/", decision.Allowed, decision.ByRule, ""},
		"without purposes":           {preferring(identity.Enforce, identity.Identity{}), rules(noTraining), "/", decision.Allowed, decision.ByRule, ""},
		"an identity that is off":    {preferring(identity.Enforce, with(func(id *identity.Identity) { id.Mode = identity.Off })), rules(noTraining), "/", decision.Allowed, decision.Exempt, ""},
		"an identity that reports":   {preferring(identity.Enforce, with(func(id *identity.Identity) { id.Mode = identity.Report })), rules(noTraining), "/", decision.Disallowed, decision.ByPreference, "content-signal: ai-train=no on line 3 of https://example.com/robots.txt"},
		"robots.txt itself":          {preferring(identity.Enforce, trainer), rules(noTraining), "/robots.txt", decision.Allowed, decision.RobotsTxt, ""},
		"no robots.txt":              {preferring(identity.Enforce, trainer), &policy.Policy{Outcome: policy.Unavailable, AllowAll: true, Status: 404}, "/", decision.Allowed, decision.Unavailable, ""},
		"off":                        {preferring(identity.Off, trainer), rules(noTraining), "/", decision.Allowed, decision.ByRule, ""},
		"another source":             {ofSources(preference.ContentUsage, preference.Response), rules(noTraining), "/", decision.Allowed, decision.ByRule, ""},
		"that source":                {ofSources(preference.ContentSignal), rules(noTraining), "/", decision.Disallowed, decision.ByPreference, "content-signal: ai-train=no on line 3 of https://example.com/robots.txt"},
		"as servers read it, loose":  {preferring(identity.Enforce, trainer), rules("User-agent: *\nContent-Signal: /a/ ai-train=no\n"), "//a/b", decision.Allowed, decision.NoRule, ""},
		"as servers read it, strict": {strict, rules("User-agent: *\nContent-Signal: /a/ ai-train=no\n"), "//a/b", decision.Disallowed, decision.ByPreference, "content-signal: /a/ ai-train=no on line 2 of https://example.com/robots.txt, for the path as servers read it, /a/b"},
	} {
		g := newGate(t, test.settings, &known{policy: test.policy}, zerolog.Nop(), nil)
		v, err := g.Decide(context.Background(), ask(t, "https://example.com"+test.path, "ExampleBot"))
		if err != nil {
			t.Fatal(err)
		}
		if v.Judgment != test.judgment || v.Reason != test.reason || v.WhyPreference() != strings.Split(test.why, ", for")[0] || v.WouldRefuse {
			t.Errorf("%s: %s (%s) for %q, would refuse: %t; want %s (%s) for %q", name, v.Judgment, v.Reason, v.WhyPreference(), v.WouldRefuse, test.judgment, test.reason, test.why)
		}
		if v.Reason == decision.ByPreference && (v.Why() != test.why || v.Rule != v.Preference || v.Line != v.PreferenceLine) {
			t.Errorf("%s: %q, want %q; rule %q on line %d", name, v.Why(), test.why, v.Rule, v.Line)
		}
	}
}

// In mode report everything is as it would be without preferences, but the verdict tells.
func TestPreferencesInModeReport(t *testing.T) {
	g := newGate(t, preferring(identity.Report, trainer), &known{policy: rules(noTraining)}, zerolog.Nop(), nil)
	v, err := g.Decide(context.Background(), ask(t, "https://example.com/", "ExampleBot"))
	if err != nil {
		t.Fatal(err)
	}
	if v.Judgment != decision.Allowed || v.Rule != "Allow: /" || v.Line != 2 || !v.WouldRefuse || v.Preference != "content-signal: ai-train=no" || v.PreferenceLine != 3 {
		t.Errorf("got %+v", v)
	}
}

func TestPurposesOfAnAsk(t *testing.T) {
	g := newGate(t, preferring(identity.Enforce, trainer), &known{policy: rules("User-agent: *\nContent-Signal: search=no, use=immediate\n")}, zerolog.Nop(), nil)
	for words, want := range map[preference.Use]string{
		{}: "",
		{Purposes: preference.PurposesOf(preference.Search)}: "content-signal: search=no",
		{Content: preference.Reference}:                      "content-signal: use=immediate",
		{Content: preference.Immediate}:                      "",
	} {
		question := ask(t, "https://example.com/", "ExampleBot")
		question.Use = words
		if v, err := g.Decide(context.Background(), question); err != nil || v.Preference != want {
			t.Errorf("%+v: %q, error %v; want %q", words, v.Preference, err, want)
		}
	}
}

// The operator's word on an origin comes before the site's. The robots_file of an override is
// a robots.txt, preferences included.
func TestPreferencesAndOverrides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own-robots.txt")
	if err := os.WriteFile(file, []byte("User-agent: *\nContent-Signal: /own ai-train=no\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := preferring(identity.Enforce, trainer)
	settings.Overrides = []override.Override{overriding(t, "https://open.example.com", override.Allow, ""), overriding(t, "https://example.com", "", file)}
	g := newGate(t, settings, &known{policy: rules(noTraining)}, zerolog.Nop(), nil)
	for url, want := range map[string]decision.Reason{
		"https://open.example.com/":      decision.Overridden,
		"https://example.com/":           decision.Overridden,
		"https://example.com/robots.txt": decision.Overridden,
		"https://example.com/own":        decision.ByPreference,
	} {
		v, err := g.Decide(context.Background(), ask(t, url, "ExampleBot"))
		if err != nil {
			t.Fatal(err)
		}
		if allowed := want == decision.Overridden; v.Reason != want || (v.Judgment == decision.Allowed) != allowed {
			t.Errorf("%s: %s (%s), want %s", url, v.Judgment, v.Reason, want)
		}
		if why := "content-signal: /own ai-train=no on line 2 of " + file + ", the operator's own robots.txt for https://example.com"; want == decision.ByPreference && v.Why() != why {
			t.Errorf("%s: %s, want %s", url, v.Why(), why)
		}
	}
}

// What mode report lets through is in the log and counted; the series are there before.
func TestPreferencesAreRecorded(t *testing.T) {
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	settings := preferring(identity.Report, trainer)
	settings.LogFilter = decision.LogRefused
	g := newGate(t, settings, &known{policy: rules(noTraining)}, zerolog.New(&log), metrics)
	expect := func(count string) {
		t.Helper()
		err := testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP robotsproxy_would_refuse_total Requests let through that a site's preference would refuse in preferences.mode enforce, by where the site states it; tunnel: in one that is not read.
# TYPE robotsproxy_would_refuse_total counter
robotsproxy_would_refuse_total{identity="default",source="content-signal"} `+count+`
robotsproxy_would_refuse_total{identity="default",source="content-usage"} 0
robotsproxy_would_refuse_total{identity="default",source="response"} 0
robotsproxy_would_refuse_total{identity="default",source="tdmrep"} 0
robotsproxy_would_refuse_total{identity="default",source="tunnel"} 0
`), "robotsproxy_would_refuse_total")
		if err != nil {
			t.Error(err)
		}
	}
	expect("0")
	var told decision.Decision
	defer g.Watch(func(d decision.Decision) { told = d })()
	a, err := admit(context.Background(), g, ask(t, "https://example.com/", "ExampleBot"))
	if err != nil || !a.Admits() {
		t.Fatal("refused", err)
	}
	a.Done(200, 1, nil)
	expect("1")
	if !strings.Contains(log.String(), `"preference":"content-signal: ai-train=no","preference_line":3,"would_refuse":true`) {
		t.Errorf("log: %s", &log)
	}
	if told.Why() != "content-signal: ai-train=no (line 3)" || told.Refused || !told.WouldRefuse {
		t.Errorf("decision: %s, %+v", told.Why(), told)
	}
}

func BenchmarkAdmitWithPurposes(b *testing.B) {
	for name, settings := range map[string]gate.Settings{
		"purposes=none":     preferring(identity.Enforce, identity.Identity{}),
		"purposes=ai-train": preferring(identity.Enforce, trainer),
	} {
		b.Run(name, func(b *testing.B) {
			settings.LogFilter = decision.LogNone
			g, err := gate.New(settings, gate.OnePolicy(rules("User-agent: *\nContent-Signal: /a ai-train=no\n")), nil, zerolog.Nop(), nil)
			if err != nil {
				b.Fatal(err)
			}
			question := ask(b, "https://example.com/b", "ExampleBot/1.0")
			b.ReportAllocs()
			for b.Loop() {
				a, err := admit(b.Context(), g, question)
				if err != nil || a.Judgment != decision.Allowed {
					b.Fatal(err)
				}
				a.Done(200, 1024, nil)
			}
		})
	}
}

func TestTDMRep(t *testing.T) {
	reserving := func(text string) *policy.Policy {
		return &policy.Policy{Outcome: policy.Rules, TDMRep: tdmrep.Parse([]byte(text)), Status: 200}
	}
	images := reserving("[\n{\"location\": \"/images/\", \"tdm-reservation\": 1},\n{\"location\": \"/\", \"tdm-reservation\": 0}]")
	searcher := identity.Identity{Purposes: []preference.Purpose{preference.Search}}
	down := &policy.Policy{Outcome: policy.Unreachable, Cause: "no route", NextTry: time.Unix(1000, 0)}
	lenient, others := preferring(identity.Report, trainer), preferring(identity.Enforce, trainer)
	others.Preferences.Sources = []preference.Source{preference.ContentSignal}
	for name, test := range map[string]struct {
		settings gate.Settings
		robots   string
		tdmrep   *policy.Policy
		path     string
		why      string // of the refusal; "": none
		unasked  bool
	}{
		"reserved":         {settings: preferring(identity.Enforce, trainer), tdmrep: images, path: "/images/1", why: "tdmrep: /images/ tdm-reservation: 1 on line 2 of https://example.com/.well-known/tdmrep.json"},
		"not reserved":     {settings: preferring(identity.Enforce, trainer), tdmrep: images, path: "/texts/1"},
		"reported":         {settings: lenient, tdmrep: images, path: "/images/1", why: "tdmrep: /images/ tdm-reservation: 1 on line 2 of https://example.com/.well-known/tdmrep.json"},
		"none":             {settings: preferring(identity.Enforce, trainer), tdmrep: &policy.Policy{Outcome: policy.Unavailable, AllowAll: true, Status: 404}, path: "/"},
		"unreachable":      {settings: preferring(identity.Enforce, trainer), tdmrep: down, path: "/", why: "https://example.com/.well-known/tdmrep.json cannot be had (no route), so the right to mine the site is taken for reserved until it can"},
		"only for AI":      {settings: preferring(identity.Enforce, searcher), tdmrep: images, path: "/images/1", unasked: true},
		"another source":   {settings: others, tdmrep: images, path: "/images/1", unasked: true},
		"off":              {settings: preferring(identity.Off, trainer), tdmrep: images, path: "/images/1", unasked: true},
		"without purposes": {settings: preferring(identity.Enforce, identity.Identity{}), tdmrep: images, path: "/images/1", unasked: true},
		"the file itself":  {settings: preferring(identity.Enforce, trainer), tdmrep: down, path: "/.well-known/tdmrep.json", unasked: true},
		"robots.txt":       {settings: preferring(identity.Enforce, trainer), tdmrep: down, path: "/robots.txt", unasked: true},
		"a rule first":     {settings: preferring(identity.Enforce, trainer), robots: "User-agent: *\nDisallow: /", tdmrep: images, path: "/images/1", unasked: true},
		"a line first":     {settings: preferring(identity.Enforce, trainer), robots: noTraining, tdmrep: images, path: "/images/1", why: "content-signal: ai-train=no on line 3 of https://example.com/robots.txt", unasked: true},
	} {
		g := newGate(t, test.settings, &known{policy: rules(test.robots)}, zerolog.Nop(), nil)
		files := &known{policy: test.tdmrep}
		g.TDMRep = files
		v, err := g.Decide(context.Background(), ask(t, "https://example.com"+test.path, "ExampleBot"))
		if err != nil {
			t.Fatal(err)
		}
		if v.WhyPreference() != test.why || len(files.asked) > 0 == test.unasked {
			t.Errorf("%s: %q, asked %d times; want %q", name, v.WhyPreference(), len(files.asked), test.why)
		}
		if retry := v.RetryAt(); retry.IsZero() == (name == "unreachable") || !retry.IsZero() && !retry.Equal(down.NextTry) {
			t.Errorf("%s: retry at %v", name, retry)
		}
		reported := test.settings.Preferences.Mode == identity.Report
		if refused := v.Reason == decision.ByPreference; refused != (test.why != "" && !reported) || v.WouldRefuse != (test.why != "" && reported) {
			t.Errorf("%s: %s (%s), would refuse: %t", name, v.Judgment, v.Reason, v.WouldRefuse)
		}
	}
}

// A tunnel that is not read is refused with the names of the files that allow only a part.
func TestWhyATunnelIsNotOpened(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.txt")
	if err := os.WriteFile(own, []byte("User-agent: *\nDisallow: /a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	part := &policy.Policy{Outcome: policy.Rules, TDMRep: tdmrep.Parse([]byte(`[{"location": "/a", "tdm-reservation": 1}]`))}
	for _, test := range []struct {
		robots    string
		tdmrep    *policy.Policy
		overrides []override.Override
		why       string
	}{
		{robots: "User-agent: *\nDisallow: /a\n", tdmrep: &policy.Policy{Outcome: policy.Rules, TDMRep: new(tdmrep.File)}, why: "https://example.com/robots.txt allows only a part"},
		{tdmrep: part, why: "https://example.com/robots.txt, or the site's /.well-known/tdmrep.json, allows only a part"},
		{overrides: []override.Override{overriding(t, "https://example.com", "", own)}, why: own + " allows only a part"},
	} {
		settings := preferring(identity.Enforce, trainer)
		settings.Overrides = test.overrides
		g := newGate(t, settings, &known{policy: rules(test.robots)}, zerolog.Nop(), nil)
		g.TDMRep = &known{policy: test.tdmrep}
		a, err := g.AdmitOpaque(t.Context(), ask(t, "https://example.com/", "ExampleBot"), decision.Disallowed)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Discard()
		if a.Admits() || !strings.HasPrefix(a.Why(), test.why) {
			t.Errorf("%s (%s): %s; want %s", a.Judgment, a.Reason, a.Why(), test.why)
		}
	}
}

// Nothing is allowed that could not be decided.
func TestNoTDMRep(t *testing.T) {
	g := newGate(t, preferring(identity.Report, trainer), &known{policy: rules("")}, zerolog.Nop(), nil)
	g.TDMRep = &known{err: context.Canceled}
	v, err := g.Decide(context.Background(), ask(t, "https://example.com/", "ExampleBot"))
	if !errors.Is(err, context.Canceled) || v.Admits() {
		t.Errorf("%s (%s), error %v", v.Judgment, v.Reason, err)
	}
}

// What a page says about mining goes before the tdmrep.json; its silence does not.
func TestResponseBeforeTDMRep(t *testing.T) {
	files := &known{policy: &policy.Policy{Outcome: policy.Rules, TDMRep: tdmrep.Parse([]byte(`[{"location": "/", "tdm-reservation": 1}]`))}}
	g := newGate(t, preferring(identity.Report, trainer), &known{policy: rules("")}, zerolog.Nop(), nil)
	g.TDMRep = files
	for _, test := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{}, "tdmrep: / tdm-reservation: 1"},
		{http.Header{"Tdm-Reservation": {"0"}}, ""},
		{http.Header{"Tdm-Reservation": {"1"}}, "tdmrep: / tdm-reservation: 1"},
		{http.Header{"Tdm-Reservation": {"0"}, "X-Robots-Tag": {"noai"}}, "response: x-robots-tag: noai"},
	} {
		a, err := admit(context.Background(), g, ask(t, "https://example.com/", "ExampleBot"))
		if err != nil {
			t.Fatal(err)
		}
		if refused := a.HeedResponse(200, test.header); refused || a.Preference != test.want || a.WouldRefuse != (test.want != "") {
			t.Errorf("%v: refused: %t, %q, would refuse: %t; want %q", test.header, refused, a.Preference, a.WouldRefuse, test.want)
		}
		a.Discard()
	}
}

// A tunnel that is read only if that makes a difference is read if the tdmrep.json reserves a
// part of the site.
func TestTDMRepOfTunnels(t *testing.T) {
	bot := trainer
	bot.ProductTokens = []string{"ExampleBot"}
	settings := preferring(identity.Enforce, identity.Identity{})
	settings.Identities.Entries = []identity.Entry{{Name: "a", Identity: bot}}
	settings.Preferences.Sources = []preference.Source{preference.TDMRep}
	for text, want := range map[string]string{
		``: "admitted",
		`[{"location": "/", "tdm-reservation": 0}]`:                                           "to be read",
		`[{"location": "/", "tdm-reservation": 1}]`:                                           "refused",
		`[{"location": "/a", "tdm-reservation": 1}]`:                                          "to be read",
		`[{"location": "/a", "tdm-reservation": 0}, {"location": "/", "tdm-reservation": 1}]`: "to be read",
	} {
		for name, robots := range map[string]*policy.Policy{"rules": rules("User-agent: *\nAllow: /\n"), "none": {Outcome: policy.Unavailable, AllowAll: true, Status: 404}} {
			g := newGate(t, settings, &known{policy: robots}, zerolog.Nop(), nil)
			g.TDMRep = &known{policy: &policy.Policy{Outcome: policy.Rules, TDMRep: tdmrep.Parse([]byte(text))}}
			a, err := g.AdmitIfUniform(context.Background(), ask(t, "https://example.com/", "ExampleBot"))
			got := "admitted"
			switch {
			case errors.Is(err, gate.ErrNotUniform):
				got = "to be read"
			case err != nil:
				t.Fatal(err)
			case !a.Admits():
				got = "refused"
			}
			if got != want {
				t.Errorf("%s, robots.txt: %s: %s, want %s", text, name, got, want)
			}
		}
	}
}
