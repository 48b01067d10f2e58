package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/proxy/counter"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/report"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
	"robotsproxy/robots/store/sqlitestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A web has 200 sites of a few kinds.
type web struct{ policies []*policy.Policy }

const sites = 200

func newWeb() *web {
	rules := func(text string) *policy.Policy {
		return &policy.Policy{Outcome: policy.Rules, Status: 200, SHA256: strings.Repeat("0", 64), File: robots.Parse([]byte(text))}
	}
	return &web{[]*policy.Policy{
		rules("User-agent: *\nDisallow: /private/\nDisallow: /*?q=\n"),
		rules("User-agent: *\nDisallow: /\nAllow: /public/\n"),
		rules("User-agent: *\nDisallow: /private/\nCrawl-delay: 20\n"),
		rules("User-agent: *\nDisallow: /private/\nContent-Signal: search=yes, ai-train=no\n"),
		{Outcome: policy.None, Cause: "connection refused"},
		{Outcome: policy.None, Cause: "503 Service Unavailable"},
		{Outcome: policy.Unavailable, AllowAll: true, Status: 404},
	}}
}

func (*web) origin(i int) string { return fmt.Sprintf("https://site%03d.example", i) }

// Policy implements [gate.Policies].
func (w *web) Policy(_ context.Context, origin robots.Origin, _ keeper.Sender) (*policy.Policy, error) {
	var i int
	fmt.Sscanf(origin.String(), "https://site%03d.example", &i)
	return w.policies[i%len(w.policies)], nil
}

// settings have three bots, and two overrides.
func settings(t *testing.T, w *web) gate.Settings {
	s := gate.Settings{Preferences: gate.DefaultPreferences()}
	s.Identities.Default = identity.Default()
	for name, mode := range map[string]identity.Mode{"trainer": identity.Enforce, "newcomer": identity.Report} {
		id := identity.Default()
		id.Mode = mode
		id.Purposes = []preference.Purpose{preference.AITrain}
		s.Identities.Entries = append(s.Identities.Entries, identity.Entry{Name: name, Identity: id})
	}
	for i, verdict := range []gate.Action{gate.Allow, gate.Disallow} {
		o := gate.Override{Verdict: verdict, Reason: fmt.Sprintf("agreed with them, \"no. %d\"", i), By: "Ada"}
		if err := o.Origin.UnmarshalText([]byte(w.origin(i))); err != nil {
			t.Fatal(err)
		}
		s.Overrides = append(s.Overrides, o)
	}
	return s
}

// A line is what the log has of a decision.
type line struct {
	Time           time.Time `json:"time"`
	Message        string    `json:"message"`
	URL            string    `json:"url"`
	Identity       string    `json:"identity"`
	Verdict        string    `json:"verdict"`
	Reason         string    `json:"reason"`
	Rule           string    `json:"rule"`
	Preference     string    `json:"preference"`
	WouldRefuse    bool      `json:"would_refuse"`
	Cause          string    `json:"cause"`
	OverrideReason string    `json:"override_reason"`
	Status         int       `json:"status"`
	PacedMS        int64     `json:"paced_ms"`
}

// A month of three bots over 200 sites, on two days of which no proxy ran: the report's
// numbers are those of the log.
func TestMonthIsReportedAsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, w := t.TempDir(), newWeb()
		var log bytes.Buffer
		logger := zerolog.New(zerolog.SyncWriter(&log)).With().Timestamp().Logger()
		random := rand.New(rand.NewPCG(1, 2))
		first := counts.DayOf(time.Now())
		const days = 30
		for day := range days {
			if day != 11 && day != 12 {
				crawl(t, w, dir, logger, random)
			}
			time.Sleep(time.Until((first + counts.Day(day) + 1).Start()))
		}
		s, err := sqlitestore.Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var lines []line
		for text := range bytes.Lines(log.Bytes()) {
			var l line
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
			if l.Message == "request" {
				lines = append(lines, l)
			}
		}
		month := counts.Period{From: first, Until: first + days - 1}
		for _, scope := range []report.Scope{
			{Period: month},
			{Period: counts.Period{From: first + 5, Until: first + 20}},
			{Period: month, Origin: w.origin(2)},
			{Period: month, Identity: "newcomer"},
			{Period: month, Origin: w.origin(3), Identity: "trainer"},
		} {
			r, err := report.Read(t.Context(), s, s.Changes, scope)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, r, expected(scope, lines))
		}
		if len(lines) < 10_000 {
			t.Errorf("there are only %d requests", len(lines))
		}
	})
}

// crawl is what the bots do on one day, by a proxy that is started and ended.
func crawl(t *testing.T, w *web, dir string, log zerolog.Logger, random *rand.Rand) {
	s, err := sqlitestore.Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pacing := pace.Defaults()
	pacing.MaxWait = 50 * time.Second
	pacer := pace.New(pacing, nil, zerolog.Nop(), nil)
	defer pacer.Close()
	g, err := gate.New(settings(t, w), w, pacer, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	decisions := counter.New(s, time.Now, zerolog.Nop())
	defer decisions.Close()
	defer g.Watch(decisions.Add)()
	paths := []string{"/", "/public/a", "/private/a", "/search?q=x", "/robots.txt"}
	var requests sync.WaitGroup
	for range 400 {
		target, err := robots.ParseTarget(w.origin(random.IntN(sites)) + paths[random.IntN(len(paths))])
		if err != nil {
			t.Fatal(err)
		}
		ask := gate.Ask{
			Target: target, Method: http.MethodGet, Identity: []string{"default", "trainer", "newcomer"}[random.IntN(3)],
			Asker: identity.Asker{Addr: netip.MustParseAddr("127.0.0.1"), Header: http.Header{"User-Agent": {"ExampleBot/1.0"}}},
		}
		burst := 1
		if random.IntN(40) == 0 {
			burst = 5 // so that some wait for their turns, and some for too long
		}
		for range burst {
			requests.Go(func() { request(t, g, ask) })
		}
		time.Sleep(time.Duration(random.IntN(120)) * time.Second)
	}
	requests.Wait()
}

// request is what a door does with one.
func request(t *testing.T, g *gate.Gate, ask gate.Ask) {
	a, err := g.Admit(t.Context(), ask)
	if err != nil {
		t.Error(err)
		return
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	switch {
	case a.Admits():
		a.Done(http.StatusOK, 1024, nil)
	case a.Late() != nil:
		a.Done(http.StatusTooManyRequests, 100, nil)
	default:
		a.Done(http.StatusForbidden, 100, nil)
	}
}

// wanted is what a report says, as maps from the names of a line to its numbers.
type wanted map[string]map[string]string

func (w wanted) set(list, names string, numbers ...any) {
	if w[list] == nil {
		w[list] = map[string]string{}
	}
	w[list][names] = fmt.Sprint(numbers...)
}

// expected makes of the log's lines what the report is to say, each list by itself, in the
// simplest way.
func expected(scope report.Scope, lines []line) wanted {
	type sum struct{ all, allowed, would, refused, pace, paced, ms int64 }
	sums := map[string]map[string]*sum{}
	daysOf := map[string]map[counts.Day]bool{}
	causes := map[string]map[string]bool{}
	add := func(list, names string, l line) {
		if sums[list] == nil {
			sums[list] = map[string]*sum{}
		}
		s := sums[list][names]
		if s == nil {
			s = &sum{}
			sums[list][names] = s
		}
		s.all++
		switch {
		case l.Status == 429:
			s.pace++
		case l.Status == 403:
			s.refused++
		case l.Verdict == "disallowed" || l.WouldRefuse:
			s.would++
		default:
			s.allowed++
		}
		if l.PacedMS > 0 {
			s.paced++
			s.ms += l.PacedMS
		}
	}
	for _, l := range lines {
		origin := strings.Join(strings.SplitN(l.URL, "/", 4)[:3], "/")
		day := counts.DayOf(l.Time)
		if day < scope.From || day > scope.Until || scope.Origin != "" && origin != scope.Origin || scope.Identity != "" && l.Identity != scope.Identity {
			continue
		}
		add("totals", "", l)
		add("days", day.String(), l)
		add("identities", l.Identity, l)
		add("origins", origin, l)
		switch {
		case l.Status == 429:
			add("refusals", fmt.Sprint(origin, " pace  "), l)
		case l.WouldRefuse || l.Reason == "preference":
			add("refusals", fmt.Sprint(origin, " preference  ", l.Preference), l)
			add("preferences", fmt.Sprint(origin, " ", l.Preference), l)
		case l.Verdict == "disallowed":
			add("refusals", fmt.Sprint(origin, " ", l.Reason, " ", l.Rule, " "), l)
		}
		switch l.Reason {
		case "override":
			add("overrides", fmt.Sprint(origin, " ", l.Verdict, " ", l.OverrideReason), l)
		case "unreachable":
			add("unreachable", origin, l)
			if daysOf[origin] == nil {
				daysOf[origin], causes[origin] = map[counts.Day]bool{}, map[string]bool{}
			}
			daysOf[origin][day], causes[origin][l.Cause] = true, true
		}
	}
	w := wanted{}
	for list, all := range sums {
		for names, s := range all {
			switch list {
			case "totals", "days", "identities", "origins":
				w.set(list, names, report.Totals{
					Requests: s.all, Allowed: s.allowed, WouldBeRefused: s.would, Refused: s.refused, RefusedForPace: s.pace,
					Paced: s.paced, PacedSeconds: float64(s.ms) / 1000,
				})
			case "refusals", "preferences":
				w.set(list, names, s.refused+s.pace, s.would)
			case "overrides":
				w.set(list, names, s.all)
			case "unreachable":
				w.set(list, names, s.all, len(daysOf[names]), slices.Sorted(maps.Keys(causes[names])))
			}
		}
	}
	return w
}

// compare compares every number of a report, but for the days that have none.
func compare(t *testing.T, r *report.Report, want wanted) {
	t.Helper()
	got := wanted{}
	got.set("totals", "", r.Totals)
	without := 0
	for _, d := range r.Days {
		if d.Requests > 0 {
			got.set("days", d.Day.String(), d.Totals)
		}
		if !d.Ran {
			without++
		}
	}
	for _, i := range r.Identities {
		got.set("identities", i.Identity, i.Totals)
	}
	for _, o := range r.Origins {
		got.set("origins", o.Origin, o.Totals)
	}
	for _, f := range r.Refusals {
		got.set("refusals", fmt.Sprint(f.Origin, " ", f.Reason, " ", f.Rule, " ", f.Preference), f.Refused, f.WouldBeRefused)
	}
	for _, p := range r.Preferences {
		got.set("preferences", fmt.Sprint(p.Origin, " ", p.Preference), p.Refused, p.WouldBeRefused)
	}
	for _, o := range r.Overrides {
		got.set("overrides", fmt.Sprint(o.Origin, " ", o.Verdict, " ", o.Reason), o.Requests)
	}
	for _, u := range r.Unreachable {
		got.set("unreachable", u.Origin, u.Requests, u.Days, u.Causes)
	}
	for _, list := range slices.Sorted(maps.Keys(want)) {
		names := maps.Clone(want[list])
		maps.Copy(names, got[list])
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if got[list][name] != want[list][name] {
				t.Errorf("%s: %s: %s: got %q, want %q", r.Title(), list, name, got[list][name], want[list][name])
			}
		}
	}
	if without != 2 {
		t.Errorf("%s: %d days without the proxy", r.Title(), without)
	}
	if whole := r.Origin == "" && r.Identity == ""; whole {
		for _, n := range []int64{r.Totals.Allowed, r.Totals.Refused, r.Totals.WouldBeRefused, r.Totals.RefusedForPace, r.Totals.Paced} {
			if n == 0 {
				t.Errorf("nothing is tested: %+v", r.Totals)
			}
		}
		if len(want) != 8 {
			t.Errorf("nothing is expected of some lists: %v", slices.Sorted(maps.Keys(want)))
		}
	}
}
