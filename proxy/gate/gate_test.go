package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
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
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
)

// known is a source of one policy. It records the agents for which it was asked.
type known struct {
	policy *policy.Policy
	err    error
	asked  []keeper.Sender
}

func (k *known) Policy(_ context.Context, _ robots.Origin, by keeper.Sender) (*policy.Policy, error) {
	k.asked = append(k.asked, by)
	return k.policy, k.err
}

const site = `Sitemap: https://example.com/sitemap.xml
User-agent: ExampleBot
Crawl-delay: 2.5
Disallow: /private/
Allow: /private/open

User-agent: *
Disallow: /
`

func rules(text string) *policy.Policy {
	return &policy.Policy{Outcome: policy.Rules, File: robots.Parse([]byte(text)), Status: 200, SHA256: "abc"}
}

func TestDecide(t *testing.T) {
	named := identity.Identity{ProductTokens: []string{"ExampleBot-Image", "ExampleBot"}, UserAgent: "ExampleBot-Image/1.0", Mode: identity.Enforce}
	mode := func(m identity.Mode) identity.Identity { return identity.Identity{Mode: m} }
	for _, test := range []struct {
		name   string
		id     identity.Identity
		policy *policy.Policy
		agent  string // User-Agent
		agents []string
		url    string

		admits   bool
		judgment decision.Judgment
		reason   decision.Reason
		token    string // the verdict's agent
		rule     string
		line     int
		group    string
	}{
		{name: "a rule disallows", id: mode("enforce"), policy: rules(site), agent: "ExampleBot/2.0", url: "https://example.com/private/a",
			judgment: "disallowed", reason: "rule", token: "ExampleBot", rule: "Disallow: /private/", line: 4, group: "examplebot"},
		{name: "a rule allows", id: mode("enforce"), policy: rules(site), agent: "ExampleBot/2.0", url: "https://example.com/private/open",
			admits: true, judgment: "allowed", reason: "rule", token: "ExampleBot", rule: "Allow: /private/open", line: 5, group: "examplebot"},
		{name: "no rule matches", id: mode("enforce"), policy: rules(site), agent: "ExampleBot", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "no_rule", token: "ExampleBot", group: "examplebot"},
		{name: "an empty rule", id: mode("enforce"), policy: rules("User-agent: *\nDisallow:"), agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "no_rule", token: "curl", rule: "Disallow:", line: 2, group: "*"},
		{name: "everyone's group", id: mode("enforce"), policy: rules(site), agent: "curl/8", url: "https://example.com/",
			judgment: "disallowed", reason: "rule", token: "curl", rule: "Disallow: /", line: 8, group: "*"},
		{name: "no agent", id: mode("enforce"), policy: rules(site), url: "https://example.com/",
			judgment: "disallowed", reason: "rule", token: "*", rule: "Disallow: /", line: 8, group: "*"},
		{name: "no group", id: mode("enforce"), policy: rules("User-agent: a\nDisallow: /"), agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "no_group", token: "curl"},
		{name: "the identity's tokens", id: named, policy: rules(site), agent: "curl/8", url: "https://example.com/private/a",
			judgment: "disallowed", reason: "rule", token: "ExampleBot", rule: "Disallow: /private/", line: 4, group: "examplebot"},
		{name: "agents beat the identity's tokens", id: named, policy: rules(site), agents: []string{"other"}, url: "https://example.com/",
			judgment: "disallowed", reason: "rule", token: "other", rule: "Disallow: /", line: 8, group: "*"},
		{name: "robots.txt itself", id: mode("enforce"), policy: rules(site), agent: "curl/8", url: "https://example.com/robots%2Etxt?x",
			admits: true, judgment: "allowed", reason: "robots_txt", token: "curl"},
		{name: "unavailable", id: mode("enforce"), policy: &policy.Policy{Outcome: policy.Unavailable, AllowAll: true, Status: 404}, agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "unavailable", token: "curl"},
		{name: "unreachable", id: mode("enforce"), policy: &policy.Policy{Outcome: policy.Unreachable, Status: 503}, agent: "curl/8", url: "https://example.com/",
			judgment: "disallowed", reason: "unreachable", token: "curl"},
		{name: "unreachable for long", id: mode("enforce"), policy: &policy.Policy{Outcome: policy.UnreachableExpired, AllowAll: true}, agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "unreachable_expired", token: "curl"},
		{name: "status allows", id: mode("enforce"), policy: &policy.Policy{Outcome: policy.Status, AllowAll: true}, agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "status", token: "curl"},
		{name: "status disallows", id: mode("enforce"), policy: &policy.Policy{Outcome: policy.Status}, agent: "curl/8", url: "https://example.com/",
			judgment: "disallowed", reason: "status", token: "curl"},
		{name: "the zero policy", id: mode("enforce"), policy: &policy.Policy{}, agent: "curl/8", url: "https://example.com/",
			judgment: "disallowed", reason: "unreachable", token: "curl"},
		{name: "mode report", id: mode("report"), policy: rules(site), agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "disallowed", reason: "rule", token: "curl", rule: "Disallow: /", line: 8, group: "*"},
		{name: "mode off", id: mode("off"), policy: rules(site), agent: "curl/8", url: "https://example.com/",
			admits: true, judgment: "allowed", reason: "exempt", token: "curl"},
		{name: "mode off comes before robots.txt", id: mode("off"), policy: rules(site), agent: "curl/8", url: "https://example.com/robots.txt",
			admits: true, judgment: "allowed", reason: "exempt", token: "curl"},
		{name: "the zero identity enforces", policy: rules(site), agent: "curl/8", url: "https://example.com/",
			judgment: "disallowed", reason: "rule", token: "curl", rule: "Disallow: /", line: 8, group: "*"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(t, gate.Settings{Identities: identity.Table{Default: test.id}}, &known{policy: test.policy}, zerolog.Nop(), nil)
			v, err := g.Decide(context.Background(), ask(t, test.url, test.agent, test.agents...))
			if err != nil {
				t.Fatal(err)
			}
			if v.Admits() != test.admits || v.Judgment != test.judgment || v.Reason != test.reason {
				t.Errorf("admits %v, %s by %s; want %v, %s by %s", v.Admits(), v.Judgment, v.Reason, test.admits, test.judgment, test.reason)
			}
			if v.Agent != test.token || v.Rule != test.rule || v.Line != test.line || v.Group != test.group {
				t.Errorf("agent %q, rule %q on line %d of group %q; want %q, %q, %d, %q", v.Agent, v.Rule, v.Line, v.Group, test.token, test.rule, test.line, test.group)
			}
			if v.Why() == "" || v.Why() == (&gate.Verdict{}).Why() {
				t.Errorf("it is not explained: %q", v.Why())
			}
			if !slices.Contains(decision.Reasons(), v.Reason) || v.Reason.Phrase() == decision.Reason("").Phrase() || v.Reason.Sentence() == decision.Reason("").Sentence() {
				t.Errorf("the reason %s has no words: %q, %q", v.Reason, v.Reason.Phrase(), v.Reason.Sentence())
			}
		})
	}
}

func ask(t testing.TB, url, userAgent string, agents ...string) gate.Ask {
	t.Helper()
	target, err := robots.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	asker := identity.Asker{Addr: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"User-Agent": {userAgent}}}
	return gate.Ask{Target: target, Asker: asker, Agents: agents, Method: "GET"}
}

func newGate(t *testing.T, settings gate.Settings, policies gate.Policies, log zerolog.Logger, metrics prometheus.Registerer) *gate.Gate {
	t.Helper()
	g, err := gate.New(settings, policies, nil, log, metrics)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// admit judges a request and waits for its turn, as a door does.
func admit(ctx context.Context, g *gate.Gate, question gate.Ask) (*gate.Admission, error) {
	a, err := g.Admit(ctx, question)
	if err == nil {
		err = a.Wait(ctx)
	}
	return a, err
}

func TestZeroVerdictRefuses(t *testing.T) {
	if new(gate.Verdict).Admits() {
		t.Error("the zero verdict admits")
	}
}

func TestWhyOfAnUnreachableFile(t *testing.T) {
	for cause, want := range map[string]string{
		"connection refused": "http://example.com/robots.txt cannot be had (connection refused), so everything is disallowed until it can",
		"":                   "http://example.com/robots.txt cannot be had, so everything is disallowed until it can",
	} {
		v := gate.Verdict{Reason: decision.Unreachable, RobotsURL: "http://example.com/robots.txt", Cause: cause}
		if got := v.Why(); got != want {
			t.Errorf("cause %q: %s", cause, got)
		}
	}
}

// Without a policy the verdict refuses.
func TestNoPolicy(t *testing.T) {
	g := newGate(t, gate.Settings{Identities: identity.Table{Default: identity.Identity{Mode: identity.Report}}}, &known{err: context.Canceled}, zerolog.Nop(), nil)
	v, err := g.Decide(context.Background(), ask(t, "https://example.com/", "curl/8"))
	if !errors.Is(err, context.Canceled) || v.Judgment == decision.Allowed {
		t.Errorf("%v, %s", err, v.Judgment)
	}
	if a, err := g.Admit(context.Background(), ask(t, "https://example.com/", "curl/8")); !errors.Is(err, context.Canceled) || a != nil {
		t.Errorf("admitting: %v, %+v", err, a)
	}
}

// The keeper gets what the operator configured and what the client says of itself separately.
func TestPolicyIsAskedForOnBehalfOfTheIdentity(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.7")
	for _, test := range []struct {
		id   identity.Identity
		want keeper.Sender
	}{
		{identity.Identity{}, keeper.Sender{Identity: "default", Client: client, ClientAgent: "curl/8"}},
		{
			identity.Identity{UserAgent: "ExampleBot/1.0", From: "bot@example.org"},
			keeper.Sender{Identity: "default", Client: client, ClientAgent: "curl/8", UserAgent: "ExampleBot/1.0", From: "bot@example.org"},
		},
	} {
		k := &known{policy: rules("")}
		g := newGate(t, gate.Settings{Identities: identity.Table{Default: test.id}}, k, zerolog.Nop(), nil)
		question := ask(t, "https://example.com/", "curl/8")
		question.Addr = client
		question.Header.Set("From", "someone@example.org")
		g.Decide(context.Background(), question)
		if want := []keeper.Sender{test.want}; !reflect.DeepEqual(k.asked, want) {
			t.Errorf("asked by %+v, want %+v", k.asked, want)
		}
	}
}

func TestVerdictJSON(t *testing.T) {
	p := rules(site)
	p.FetchedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p.ExpiresAt = p.FetchedAt.Add(24 * time.Hour)
	g := newGate(t, gate.Settings{}, &known{policy: p}, zerolog.Nop(), nil)
	v, err := g.Decide(context.Background(), ask(t, "https://example.com/private/a", "ExampleBot/1.0"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"url":"https://example.com/private/a","origin":"https://example.com","agent":"ExampleBot","identity":"default","verdict":"disallowed","reason":"rule",` +
		`"rule":"Disallow: /private/","line":4,"group":"examplebot","robots_url":"https://example.com/robots.txt","robots_status":200,"robots_sha256":"abc",` +
		`"fetched_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-03T03:04:05Z","crawl_delay":2.5,"sitemaps":["https://example.com/sitemap.xml"]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// A stated delay of zero is shown, and members without a value are omitted.
func TestVerdictJSONWithoutValues(t *testing.T) {
	g := newGate(t, gate.Settings{}, &known{policy: rules("User-agent: *\nCrawl-delay: 0")}, zerolog.Nop(), nil)
	v, _ := g.Decide(context.Background(), ask(t, "https://example.com/", ""))
	text, _ := json.Marshal(v)
	if !bytes.Contains(text, []byte(`"crawl_delay":0`)) {
		t.Errorf("a stated delay of zero is missing: %s", text)
	}
	for _, absent := range []string{"rule", "line", "fetched_at", "sitemaps"} {
		if bytes.Contains(text, []byte(`"`+absent+`":`)) {
			t.Errorf("%s stands in %s", absent, text)
		}
	}
}

// Each request gives one log line and one count, both from its verdict.
func TestDecisionsAreRecorded(t *testing.T) {
	for decisions, want := range map[decision.LogFilter]int{"": 3, decision.LogAll: 3, decision.LogRefused: 2, decision.LogNone: 0} {
		var log bytes.Buffer
		metrics := prometheus.NewRegistry()
		g := newGate(t, gate.Settings{LogFilter: decisions}, &known{policy: rules(site)}, zerolog.New(&log), metrics)
		for _, url := range []string{"https://example.com/", "https://example.com/private/a", "https://example.com/private/b"} {
			p, err := admit(context.Background(), g, ask(t, url, "ExampleBot/1.0"))
			if err != nil {
				t.Fatal(err)
			}
			p.Done(200, 12, nil)
		}
		if got := strings.Count(log.String(), `"message":"request"`); got != want {
			t.Errorf("decisions %q: %d lines, want %d:\n%s", decisions, got, want, &log)
		}
		err := testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP robotsproxy_requests_total Requests that were judged. In mode report, verdict disallowed counts those let through all the same.
# TYPE robotsproxy_requests_total counter
robotsproxy_requests_total{identity="default",reason="exempt",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="no_group",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="no_rule",verdict="allowed"} 1
robotsproxy_requests_total{identity="default",reason="override",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="override",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="preference",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="robots_txt",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="rule",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="rule",verdict="disallowed"} 2
robotsproxy_requests_total{identity="default",reason="status",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="status",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="tunnel",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="tunnel",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="too_costly",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="unavailable",verdict="allowed"} 0
robotsproxy_requests_total{identity="default",reason="unreachable",verdict="disallowed"} 0
robotsproxy_requests_total{identity="default",reason="unreachable_expired",verdict="allowed"} 0
`), "robotsproxy_requests_total")
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDecisionLine(t *testing.T) {
	var log bytes.Buffer
	g := newGate(t, gate.Settings{}, &known{policy: rules(site)}, zerolog.New(&log), nil)
	p, err := admit(context.Background(), g, ask(t, "https://example.com/private/a", "ExampleBot/1.0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Done(403, 321, errors.New("why"))
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{
		"message": "request", "client": "192.0.2.1", "identity": "default", "agent": "ExampleBot", "method": "GET",
		"url": "https://example.com/private/a", "verdict": "disallowed", "reason": "rule", "rule": "Disallow: /private/", "line": 4.0,
		"robots_sha256": "abc", "status": 403.0, "error": "why", "bytes": 321.0,
	} {
		if line[field] != want {
			t.Errorf("%s is %v, want %v", field, line[field], want)
		}
	}
	for _, field := range []string{"duration_ms", "wait_ms"} {
		if _, ok := line[field].(float64); !ok {
			t.Errorf("%s is %v", field, line[field])
		}
	}
}

// A watcher gets what the log gets, from Watch until stop.
func TestWatch(t *testing.T) {
	g := newGate(t, gate.Settings{
		LogFilter:  decision.LogNone,
		Identities: identity.Table{Entries: []identity.Entry{{Name: "tried", Match: identity.Match{Users: []string{"tried"}}, Identity: identity.Identity{Mode: identity.Report}}}},
	}, &known{policy: rules(site)}, zerolog.Nop(), nil)
	pass := func(a gate.Ask) {
		p, err := admit(context.Background(), g, a)
		if err != nil {
			t.Fatal(err)
		}
		p.Done(403, 321, errors.New("why"))
	}
	refused := ask(t, "https://example.com/private/a", "ExampleBot/1.0")
	reported := refused
	reported.User = "tried"

	var seen, others []decision.Decision
	stop := g.Watch(func(d decision.Decision) { seen = append(seen, d) })
	stopOthers := g.Watch(func(d decision.Decision) { others = append(others, d) })
	pass(refused)
	stopOthers()
	pass(reported)
	stop()
	pass(refused)

	if len(seen) != 2 || len(others) != 1 {
		t.Fatalf("%d and %d decisions were seen, want 2 and 1", len(seen), len(others))
	}
	d := seen[0]
	if d.Time.IsZero() || d.DurationMS < 0 || d.WaitMS < 0 {
		t.Errorf("times: %+v", d)
	}
	d.Time, d.DurationMS, d.WaitMS = time.Time{}, 0, 0
	want := decision.Decision{
		Client: netip.MustParseAddr("192.0.2.1"), Identity: "default", Agent: "ExampleBot", Method: "GET",
		URL: "https://example.com/private/a", Origin: "https://example.com", Judgment: decision.Disallowed, Reason: decision.ByRule, Refused: true,
		Rule: "Disallow: /private/", Line: 4, RobotsSHA256: "abc", Status: 403, Bytes: 321, Error: "why",
	}
	if d != want {
		t.Errorf("got %+v\nwant %+v", d, want)
	}
	if d := seen[1]; d.Refused || d.Judgment != decision.Disallowed || d.Identity != "tried" {
		t.Errorf("what is only reported: %+v", d)
	}
}

// A question on a bot's behalf may name the identity to judge as: its tokens, unless the
// question has others, its mode, and the overrides decide.
func TestDecideAsAnIdentity(t *testing.T) {
	var closed override.Override
	if err := closed.Origin.UnmarshalText([]byte("https://closed.example")); err != nil {
		t.Fatal(err)
	}
	closed.Verdict = override.Disallow
	table := identity.Table{
		Entries: []identity.Entry{
			{Name: "named", Identity: identity.Identity{ProductTokens: []string{"ExampleBot"}}},
			{Name: "watched", Identity: identity.Identity{ProductTokens: []string{"ExampleBot"}, Mode: identity.Report}},
			{Name: "free", Identity: identity.Identity{Mode: identity.Off}},
		},
		Default: identity.Identity{ProductTokens: []string{"Nobody"}},
	}
	const page, private, elsewhere = "https://example.com/", "https://example.com/private/a", "https://closed.example/"
	for _, test := range []struct {
		identity string
		agents   []string
		url      string

		admits bool
		reason decision.Reason
		agent  string
	}{
		{"", nil, page, false, decision.ByRule, "Nobody"},
		{"default", nil, page, false, decision.ByRule, "Nobody"},
		{"named", nil, page, true, decision.NoRule, "ExampleBot"},
		{"named", nil, private, false, decision.ByRule, "ExampleBot"},
		{"named", []string{"Other"}, page, false, decision.ByRule, "Other"},
		{"watched", nil, private, true, decision.ByRule, "ExampleBot"},
		{"watched", []string{"Other"}, page, true, decision.ByRule, "Other"},
		{"free", nil, private, true, decision.Exempt, "*"},
		{"free", nil, elsewhere, false, decision.Overridden, "*"},
	} {
		g := newGate(t, gate.Settings{Identities: table, Overrides: []override.Override{closed}}, &known{policy: rules(site)}, zerolog.Nop(), nil)
		question := gate.Ask{Target: ask(t, test.url, "").Target, Identity: test.identity, Agents: test.agents}
		v, err := g.Decide(context.Background(), question)
		if err != nil || v.Admits() != test.admits || v.Reason != test.reason || v.Agent != test.agent {
			t.Errorf("%+v: %v, admits %v by %s for %s", test, err, v.Admits(), v.Reason, v.Agent)
		}
		if test.identity != "" && v.Identity != test.identity {
			t.Errorf("%+v: it is judged as %s", test, v.Identity)
		}
		question.Identity = "unheard-of"
		v, err = g.Decide(context.Background(), question)
		var unknown *gate.UnknownIdentityError
		if !errors.As(err, &unknown) || v.Admits() || !strings.Contains(err.Error(), `no identity "unheard-of"; the configuration has named, watched, free, default`) {
			t.Errorf("an identity that is not there: %v, admits %v", err, v.Admits())
		}
	}
}

// No text of clients or sites makes a log line longer than its bound.
func TestDecisionsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 100_000)
	var log bytes.Buffer
	g := newGate(t, gate.Settings{LogFilter: decision.LogAll, Identities: identity.Table{}}, &known{policy: rules("User-agent: *\nDisallow: /" + strings.Repeat("a", 16_000))}, zerolog.New(&log), nil)
	a := ask(t, "https://example.com/"+strings.Repeat("a", 60_000), long)
	a.Method = long
	p, err := admit(context.Background(), g, a)
	if err != nil {
		t.Fatal(err)
	}
	var d decision.Decision
	defer g.Watch(func(seen decision.Decision) { d = seen })()
	p.Done(502, 0, errors.New(long))
	if d.Rule == "" {
		t.Error("no rule has decided")
	}
	for name, text := range map[string]string{"agent": d.Agent, "method": d.Method, "url": d.URL, "rule": d.Rule, "error": d.Error} {
		if text == "" || len(text) > 8<<10+len("…") || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("%s has %d octets: %.20q", name, len(text), text)
		}
	}
	if log.Len() > 40<<10 {
		t.Errorf("the line has %d octets", log.Len())
	}
}
