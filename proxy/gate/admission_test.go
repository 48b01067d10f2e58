package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots/policy"
)

// newPacedGate returns a gate with a pacer. change changes the pacer's default options.
func newPacedGate(t testing.TB, settings gate.Settings, p *policy.Policy, log zerolog.Logger, change func(*pace.Options)) *gate.Gate {
	t.Helper()
	opts := pace.Defaults()
	if change != nil {
		change(&opts)
	}
	pacer := pace.New(opts, nil, zerolog.Nop(), nil)
	g, err := gate.New(settings, &known{policy: p}, pacer, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// waits returns how long each of several requests, one after the other, waits.
func waits(t *testing.T, g *gate.Gate, urls ...string) []time.Duration {
	t.Helper()
	var all []time.Duration
	for _, url := range urls {
		begun := time.Now()
		p, err := admit(context.Background(), g, ask(t, url, "ExampleBot/1.0"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Since(begun))
		p.Done(200, 0, nil)
	}
	return all
}

func TestWhatIsPaced(t *testing.T) {
	const second = time.Second
	page, hidden, robotsTxt := "https://example.com/", "https://example.com/private/a", "https://example.com/robots.txt"
	mode := func(m identity.Mode) gate.Settings {
		return gate.Settings{Identities: identity.Table{Default: identity.Identity{Mode: m}}}
	}
	word := func(w override.Action) gate.Settings {
		var o override.Override
		if err := o.Origin.UnmarshalText([]byte("https://example.com")); err != nil {
			t.Fatal(err)
		}
		o.Verdict = w
		return gate.Settings{Overrides: []override.Override{o}}
	}
	byDefault := func(o *pace.Options) { o.DefaultDelay = 3 * second }
	for name, test := range map[string]struct {
		settings gate.Settings
		policy   *policy.Policy
		change   func(*pace.Options)
		urls     []string
		want     []time.Duration
	}{
		"a delay":                   {policy: rules(site), urls: []string{page, page, page}, want: []time.Duration{0, 2500 * time.Millisecond, 2500 * time.Millisecond}},
		"what is refused":           {policy: rules(site), urls: []string{hidden, page, hidden, hidden}, want: []time.Duration{0, 0, 0, 0}},
		"robots.txt":                {policy: rules(site), change: byDefault, urls: []string{robotsTxt, page, robotsTxt, robotsTxt}, want: []time.Duration{0, 0, 0, 0}},
		"no delay":                  {policy: rules("User-agent: *\nDisallow:"), urls: []string{page, page}, want: []time.Duration{0, 0}},
		"a rate":                    {policy: rules("User-agent: *\nRequest-rate: 1/4s"), urls: []string{page, page}, want: []time.Duration{0, 4 * second}},
		"a rate for some hours":     {policy: rules("User-agent: *\nRequest-rate: 1/4s 0001-2400"), urls: []string{page, page}, want: []time.Duration{0, 0}}, // a bubble's clock begins at midnight
		"the default":               {policy: rules("User-agent: *\nDisallow:"), change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 3 * second}},
		"no robots.txt":             {policy: &policy.Policy{Outcome: policy.Unavailable, AllowAll: true}, change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 3 * second}},
		"zero beats the default":    {policy: rules("User-agent: *\nCrawl-delay: 0"), change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 0}},
		"mode report":               {settings: mode(identity.Report), policy: rules(site), urls: []string{hidden, page}, want: []time.Duration{0, 2500 * time.Millisecond}},
		"mode off":                  {settings: mode(identity.Off), policy: rules(site), change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 0}},
		"the operator's allow":      {settings: word(override.Allow), policy: rules(site), urls: []string{page, page}, want: []time.Duration{0, 0}},
		"the operator's own delay":  {settings: word(override.Allow), policy: rules(site), change: byDefault, urls: []string{page, page, robotsTxt}, want: []time.Duration{0, 3 * second, 0}},
		"the operator's disallow":   {settings: word(override.Disallow), policy: rules(site), change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 0}},
		"mode off, and an override": {settings: gate.Settings{Identities: mode(identity.Off).Identities, Overrides: word(override.Allow).Overrides}, policy: rules(site), change: byDefault, urls: []string{page, page}, want: []time.Duration{0, 0}},
		"one at a time, that ended": {policy: rules(""), change: func(o *pace.Options) { o.MaxInFlight = 1 }, urls: []string{page, page}, want: []time.Duration{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := waits(t, newPacedGate(t, test.settings, test.policy, zerolog.Nop(), test.change), test.urls...)
				for i := range got {
					if got[i] != test.want[i] {
						t.Errorf("waited %v, want %v", got, test.want)
						break
					}
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// A client's own name gives it no turns of its own, if robots.txt has no group of that name.
func TestTurnsGoByTheGroup(t *testing.T) {
	agents := []string{"First/1.0", "Second/1.0", "", "Mozilla/5.0 (compatible; Third/1; +http://a.example)"}
	byDefault := func(o *pace.Options) { o.DefaultDelay = 3 * time.Second }
	const apart = 3 * time.Second
	for name, test := range map[string]struct {
		policy *policy.Policy
		want   [4]time.Duration // when each agent starts
	}{
		"everyone's group":        {rules("User-agent: *\nCrawl-delay: 3\n"), [4]time.Duration{0, apart, 2 * apart, 3 * apart}},
		"a group of one's own":    {rules("User-agent: second\nUser-agent: third\nUser-agent: *\nCrawl-delay: 3\n"), [4]time.Duration{0, 0, apart, 0}},
		"no group, and a default": {rules("User-agent: Fourth\nDisallow: /\n"), [4]time.Duration{0, apart, 2 * apart, 3 * apart}},
		"no robots.txt":           {&policy.Policy{Outcome: policy.Unavailable, AllowAll: true}, [4]time.Duration{0, apart, 2 * apart, 3 * apart}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newPacedGate(t, gate.Settings{}, test.policy, zerolog.Nop(), byDefault)
				var started [4]time.Duration
				begun := time.Now()
				for i, agent := range agents {
					go func() {
						p, err := admit(context.Background(), g, ask(t, "https://example.com/", agent))
						if err != nil {
							t.Error(err)
						}
						started[i] = time.Since(begun)
						p.Done(200, 0, nil)
					}()
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if started != test.want {
					t.Errorf("they start after %v, want %v", started, test.want)
				}
			})
		})
	}
}

// A request whose turn comes too late is refused and recorded as refused, though its verdict
// allows it.
func TestLateAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newPacedGate(t, gate.Settings{LogFilter: decision.LogRefused}, rules(site), zerolog.New(&log), func(o *pace.Options) { o.MaxWait = time.Second })
		var seen []decision.Decision
		defer g.Watch(func(d decision.Decision) { seen = append(seen, d) })()
		waits(t, g, "https://example.com/", "https://example.com/a")
		p, err := admit(context.Background(), g, ask(t, "https://example.com/b", "ExampleBot/1.0"))
		late := p.Late()
		if err != nil || p.Admits() || p.Judgment != decision.Allowed || late == nil || late.Wait != 2500*time.Millisecond {
			t.Errorf("%v, admits %v, %s, %v", err, p.Admits(), p.Judgment, late)
		}
		p.Done(429, 0, nil)
		if len(seen) != 3 || seen[0].Refused || !seen[1].Refused || !seen[2].Refused || !strings.Contains(seen[2].Error, "ask again in 2.5s") {
			t.Errorf("told %+v", seen)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("logged:\n%s", &log)
		}
	})
}

// A client that leaves while it waits is recorded too.
func TestLeavingAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newPacedGate(t, gate.Settings{}, rules(site), zerolog.New(&log), nil)
		waits(t, g, "https://example.com/")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p, err := admit(ctx, g, ask(t, "https://example.com/", "ExampleBot/1.0"))
		if !errors.Is(err, context.DeadlineExceeded) || !p.Admits() {
			t.Fatalf("%v, admits %v", err, p.Admits())
		}
		log.Reset()
		p.Done(0, 0, err)
		var line map[string]any
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line["wait_ms"] != 1000.0 || line["status"] != 0.0 {
			t.Errorf("%v: %s", err, &log)
		}
		time.Sleep(time.Hour)
	})
}

func TestRetryAfterIsHonored(t *testing.T) {
	for name, test := range map[string]struct {
		mode   identity.Mode
		status int
		header http.Header
		want   time.Duration // that the next request waits
	}{
		"429":                  {status: 429, header: http.Header{"Retry-After": {"7"}}, want: 7 * time.Second},
		"503 and a date":       {status: 503, header: http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:09 GMT"}}, want: 9 * time.Second},
		"mode report":          {mode: identity.Report, status: 429, header: http.Header{"Retry-After": {"7"}}, want: 7 * time.Second},
		"mode off":             {mode: identity.Off, status: 429, header: http.Header{"Retry-After": {"7"}}},
		"another status":       {status: 301, header: http.Header{"Retry-After": {"7"}}},
		"nothing to be read":   {status: 429, header: http.Header{"Retry-After": {"-7"}}},
		"nothing is asked for": {status: 429, header: http.Header{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newPacedGate(t, gate.Settings{Identities: identity.Table{Default: identity.Identity{Mode: test.mode}}}, rules(""), zerolog.Nop(), nil)
				p, err := admit(context.Background(), g, ask(t, "https://example.com/", "ExampleBot/1.0"))
				if err != nil {
					t.Fatal(err)
				}
				p.Answered(test.status, test.header)
				p.Done(test.status, 0, nil)
				if got := waits(t, g, "https://example.com/"); got[0] != test.want {
					t.Errorf("waited %v, want %v", got[0], test.want)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// Tunnels are read if the requests inside would be paced.
func TestPacedTunnelsAreRead(t *testing.T) {
	const open, closed = "User-agent: *\nDisallow:\n", "User-agent: *\nDisallow: /\n"
	byDefault := func(o *pace.Options) { o.DefaultDelay = time.Second }
	for name, test := range map[string]struct {
		robots string
		change func(*pace.Options)
		read   bool
	}{
		"no delay":                       {robots: open},
		"a delay":                        {robots: open + "Crawl-delay: 1\n", read: true},
		"a delay that is not honoured":   {robots: open + "Crawl-delay: 1\n", change: func(o *pace.Options) { o.CrawlDelay = false }},
		"a rate for other hours":         {robots: open + "Request-rate: 1/1 0001-2400\n", read: true},
		"a default":                      {robots: open, change: byDefault, read: true},
		"a default, nothing is allowed":  {robots: closed, change: byDefault},
		"so many at once":                {robots: open, change: func(o *pace.Options) { o.MaxInFlight = 1 }, read: true},
		"another bot's delay":            {robots: open + "\nUser-agent: x\nCrawl-delay: 1\nDisallow:\n", read: true},
		"a delay, and nothing's allowed": {robots: closed + "Crawl-delay: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newPacedGate(t, gate.Settings{}, rules(test.robots), zerolog.Nop(), test.change)
				var want error
				if test.read {
					want = gate.ErrNotUniform
				}
				a, err := g.AdmitIfUniform(context.Background(), ask(t, "https://example.com/", ""))
				if err != want || (a == nil) != test.read {
					t.Errorf("%v, %v; want the error %v", a, err, want)
				}
			})
		})
	}
}

// BenchmarkUnpaced measures a request to an origin that is not paced, without and with a
// pacer.
func BenchmarkUnpaced(b *testing.B) {
	question := ask(b, "https://example.com/", "ExampleBot/1.0")
	k := &known{policy: rules("User-agent: *\nDisallow: /private/\n")}
	for _, name := range []string{"pace=no", "pace=yes"} {
		b.Run(name, func(b *testing.B) {
			var pacer *pace.Pacer
			if name == "pace=yes" {
				pacer = pace.New(pace.Defaults(), nil, zerolog.Nop(), nil)
			}
			g, err := gate.New(gate.Settings{LogFilter: decision.LogNone}, k, pacer, zerolog.Nop(), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				k.asked = k.asked[:0]
				p, err := admit(context.Background(), g, question)
				if err != nil {
					b.Fatal(err)
				}
				p.Done(200, 0, nil)
			}
		})
	}
}

// Answers that break off count in a row, although each begins well. An error that breaks off counts
// once. The request that tries after a pause lets others go on when its answer begins.
func TestAnswersThatBreakOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newPacedGate(t, gate.Settings{LogFilter: decision.LogNone}, rules("User-agent: *\nAllow: /\n"), zerolog.Nop(),
			func(o *pace.Options) { o.BackOff = pace.BackOff{After: 3, First: time.Minute, Max: time.Hour} })
		page := ask(t, "https://example.com/a", "Bot/1")
		begin := func(status int) *gate.Admission {
			a, err := admit(t.Context(), g, page)
			if err != nil {
				t.Fatal(err)
			}
			a.Answered(status, http.Header{})
			return a
		}
		end := func(a *gate.Admission, breaksOff bool) {
			if breaksOff {
				a.Failed()
			}
			a.Done(200, 0, nil)
		}
		wantHeld := func(want bool) {
			t.Helper()
			if v, err := g.Decide(t.Context(), page); err != nil || (v.Hold != nil) != want {
				t.Errorf("held: %v, %v; want %v", v.Hold, err, want)
			}
		}
		for range 3 {
			end(begin(200), true)
			end(begin(503), true)
			wantHeld(false)
			end(begin(200), false)
		}
		for range 3 {
			end(begin(200), true)
		}
		wantHeld(true)
		probe := begin(200) // after the pause
		end(begin(200), false)
		end(probe, true)
		for range 2 {
			wantHeld(false)
			end(begin(200), true)
		}
		wantHeld(true)
	})
}

// The origin's own failures count, and nothing else that ends a request.
func TestWhatCountsAsFailure(t *testing.T) {
	answered := func(status int) func(*gate.Admission) {
		return func(a *gate.Admission) { a.Answered(status, http.Header{}) }
	}
	for name, test := range map[string]struct {
		end  func(*gate.Admission)
		want bool
	}{
		"408":                {answered(408), true},
		"425":                {answered(425), true},
		"429":                {answered(429), true},
		"500":                {answered(500), true},
		"599":                {answered(599), true},
		"200":                {answered(200), false},
		"304":                {answered(304), false},
		"404":                {answered(404), false},
		"403":                {answered(403), false},
		"no answer":          {(*gate.Admission).Failed, true},
		"one that broke off": {func(a *gate.Admission) { answered(200)(a); a.Failed() }, true},
		"an open tunnel":     {(*gate.Admission).Connected, false},
		"a client that left": {func(*gate.Admission) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newPacedGate(t, gate.Settings{LogFilter: decision.LogNone}, rules("User-agent: *\nAllow: /\n"), zerolog.Nop(), func(o *pace.Options) { o.BackOff.After = 1 })
			page := ask(t, "https://example.com/a", "Bot/1")
			a, err := g.Admit(t.Context(), page)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			test.end(a)
			a.Done(0, 0, nil)
			v, err := g.Decide(t.Context(), page)
			if err != nil || (v.Hold != nil) != test.want {
				t.Errorf("held: %v, %v; want %v", v.Hold, err, test.want)
			}
			if v, err := g.Decide(t.Context(), ask(t, "https://example.com/robots.txt", "Bot/1")); err != nil || v.Hold != nil {
				t.Errorf("robots.txt is held: %v, %v", v.Hold, err)
			}
		})
	}
}
