package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"robotsproxy/proxy/override"
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

// A web has 200 sites of a few kinds, some of which change. It notes the changes that it shows.
type web struct {
	begun time.Time

	mu      sync.Mutex
	seen    map[string]map[report.Change]bool // by origin, the answers that it has given
	changes []report.Change
}

const sites = 200

func newWeb() *web {
	return &web{begun: time.Now(), seen: map[string]map[report.Change]bool{}}
}

func (*web) origin(i int) string { return fmt.Sprintf("https://site%03d.example", i) }

// robotsTxt is what a site answers after so many days to a request for its robots.txt. The
// status 0 stands for no connection.
func (*web) robotsTxt(site, days int) (status int, text string) {
	switch site % 8 {
	case 0:
		text = "User-agent: *\nDisallow: /private/\nDisallow: /*?q=\n"
	case 1:
		text = "User-agent: *\nDisallow: /\nAllow: /public/\n"
	case 2:
		text = "User-agent: *\nDisallow: /private/\nCrawl-delay: 20\n"
	case 3:
		text = "User-agent: *\nDisallow: /private/\nContent-Signal: search=yes, ai-train=no\n"
	case 4:
		return 0, ""
	case 5:
		return 503, ""
	case 6:
		return 404, ""
	default: // it comes and goes
		return []int{200, 404, 503, 200}[days/2%4], "User-agent: *\nDisallow: /private/\n"
	}
	if site%5 == 0 {
		text += fmt.Sprintf("Disallow: /week/%d\n", days/7)
	}
	return 200, text
}

// RoundTrip answers what the proxy asks for. Half of the sites reserve the mining of texts.
func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	var site int
	fmt.Sscanf(r.URL.Host, "site%03d.example", &site)
	status, text := w.robotsTxt(site, int(time.Since(w.begun).Hours())/24)
	switch {
	case r.URL.Path == "/robots.txt":
		w.note(w.origin(site), status, text)
	case site%2 == 0:
		status, text = 200, `[{"location": "/", "tdm-reservation": 1}]`
	default:
		status, text = 404, ""
	}
	if status == 0 {
		return nil, errors.New("nobody there")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: r}, nil
}

// note notes an answer that an origin has not given before, unless it is the first one.
func (w *web) note(origin string, status int, text string) {
	answer := report.Change{Origin: origin, Status: status}
	switch status {
	case 200:
		answer.SHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	case 0, 503:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[origin] == nil {
		w.seen[origin] = map[report.Change]bool{answer: true}
	}
	if !w.seen[origin][answer] {
		w.seen[origin][answer] = true
		answer.Time = time.Now().UTC().Truncate(time.Second)
		w.changes = append(w.changes, answer)
	}
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
	for i, verdict := range []override.Action{override.Allow, override.Disallow} {
		o := override.Override{Verdict: verdict, Reason: fmt.Sprintf("agreed with them, \"no. %d\"", i), By: "Ada"}
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
	Edge           string    `json:"edge"`
}

// A month of three bots over 200 sites, on two days of which no proxy ran, and on one of which
// nobody asked it: the report's numbers are those of the log.
func TestMonthIsReportedAsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, w := t.TempDir(), newWeb()
		var log bytes.Buffer
		logger := zerolog.New(zerolog.SyncWriter(&log)).With().Timestamp().Logger()
		random := rand.New(rand.NewPCG(1, 2))
		first := counts.DayOf(time.Now())
		const days = 30
		idle, quiet := counts.Period{From: first + 11, Until: first + 12}, first+19
		for day := range days {
			switch d := first + counts.Day(day); {
			case d == quiet:
				crawl(t, w, dir, logger, random, 0)
			case d < idle.From, d > idle.Until:
				crawl(t, w, dir, logger, random, 400)
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
			compare(t, r, expected(scope, lines, w.changes), idle)
		}
		if len(lines) < 10_000 {
			t.Errorf("there are only %d requests", len(lines))
		}
	})
}

// crawl is what the bots do on one day, by a proxy that is started and ended: they ask for so
// many URLs, some of them several times at once.
func crawl(t *testing.T, w *web, dir string, log zerolog.Logger, random *rand.Rand, urls int) {
	s, err := sqlitestore.Open(t.Context(), store.Defaults(), dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pacing := pace.Defaults()
	pacing.MaxWait = 50 * time.Second
	pacer := pace.New(pacing, nil, zerolog.Nop(), nil)
	defer pacer.Close()
	k, err := keeper.New(keeper.Setup{Options: policy.Defaults(), Memory: 1 << 20, Store: s, Transport: w, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	g, err := gate.New(settings(t, w), k, pacer, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.TDMRep = k.TDMRep
	decisions := counter.New(s, time.Now, zerolog.Nop())
	defer decisions.Close()
	defer g.Watch(decisions.Add)()
	paths := []string{"/", "/public/a", "/private/a", "/search?q=x", "/robots.txt"}
	var requests sync.WaitGroup
	for range urls {
		target, err := robots.ParseTarget(w.origin(random.IntN(sites)) + paths[random.IntN(len(paths))])
		if err != nil {
			t.Fatal(err)
		}
		ask := gate.Ask{
			Target: target, Method: http.MethodGet, Identity: []string{"default", "trainer", "newcomer"}[random.IntN(3)],
			Asker: identity.Asker{Addr: netip.MustParseAddr("127.0.0.1"), Header: http.Header{"User-Agent": {"ExampleBot/1.0"}}},
		}
		burst := 1
		if random.IntN(10) == 0 {
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
		status, header := answer(a.URL)
		a.NoteEdge(status, header)
		a.Done(http.StatusOK, 1024, nil)
	case a.Late() != nil:
		a.Done(http.StatusTooManyRequests, 100, nil)
	default:
		a.Done(http.StatusForbidden, 100, nil)
	}
}

// answer is what a site answers to a request: some turn it away.
func answer(url string) (status int, header http.Header) {
	header = http.Header{}
	switch strings.Index("456", url[len("https://site00"):][:1]) {
	case 0:
		header.Set("Cf-Mitigated", "challenge")
		return http.StatusForbidden, header
	case 1:
		return http.StatusUnauthorized, header
	case 2:
		return http.StatusPaymentRequired, header
	}
	return http.StatusOK, header
}

// wanted is what a report says, as maps from the names of a line to its numbers.
type wanted map[string]map[string]string

func (w wanted) set(list, names string, numbers ...any) {
	if w[list] == nil {
		w[list] = map[string]string{}
	}
	w[list][names] = fmt.Sprint(numbers...)
}

// expected makes of the log's lines, and of the changes that the web has shown, what the report
// is to say, each list by itself, in the simplest way.
func expected(scope report.Scope, lines []line, changes []report.Change) wanted {
	type sum struct{ all, allowed, would, refused, pace, paced, ms, challenged, turned, priced int64 }
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
		case l.WouldRefuse:
			s.would++
		default:
			s.allowed++
		}
		if l.PacedMS > 0 {
			s.paced++
			s.ms += l.PacedMS
		}
		switch l.Edge {
		case "challenged":
			s.challenged++
		case "refused":
			s.turned++
		case "priced":
			s.priced++
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
		case l.WouldRefuse && l.Verdict == "allowed" || l.Reason == "preference":
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
	for _, c := range changes {
		if day := counts.DayOf(c.Time); day >= scope.From && day <= scope.Until && sums["origins"][c.Origin] != nil {
			w.set("changes", fmt.Sprint(c.Origin, " ", c.Status, " ", c.SHA256), c.Time)
		}
	}
	for list, all := range sums {
		for names, s := range all {
			switch list {
			case "totals", "days", "identities", "origins":
				w.set(list, names, report.Totals{
					Requests: s.all, Allowed: s.allowed, WouldBeRefused: s.would, Refused: s.refused, RefusedForPace: s.pace,
					Paced: s.paced, PacedSeconds: float64(s.ms) / 1000,
					Challenged: s.challenged, TurnedAway: s.turned, Priced: s.priced,
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

// compare compares every number of a report, but for those of days without requests. No proxy ran
// on the idle ones.
func compare(t *testing.T, r *report.Report, want wanted, idle counts.Period) {
	t.Helper()
	got := wanted{}
	got.set("totals", "", r.Totals)
	for _, d := range r.Days {
		if d.Requests > 0 {
			got.set("days", d.Day.String(), d.Totals)
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
	for _, c := range r.Changes {
		got.set("changes", fmt.Sprint(c.Origin, " ", c.Status, " ", c.SHA256), c.Time)
	}
	lists := maps.Clone(want)
	maps.Copy(lists, got)
	for _, list := range slices.Sorted(maps.Keys(lists)) {
		names := maps.Clone(got[list])
		if names == nil {
			names = map[string]string{}
		}
		maps.Copy(names, want[list])
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if got[list][name] != want[list][name] {
				t.Errorf("%s: %s: %s: got %q, want %q", r.Title(), list, name, got[list][name], want[list][name])
			}
		}
	}
	if without := r.DaysWithout(); len(without) != 1 || without[0].From != idle.From || without[0].Until != idle.Until {
		t.Errorf("%s: no proxy ran on %v, want %v", r.Title(), without, idle)
	}
	if whole := r.Origin == "" && r.Identity == ""; whole {
		for _, n := range []int64{r.Totals.Allowed, r.Totals.Refused, r.Totals.WouldBeRefused, r.Totals.RefusedForPace, r.Totals.Paced, r.Totals.Challenged, r.Totals.TurnedAway, r.Totals.Priced} {
			if n == 0 {
				t.Errorf("nothing is tested: %+v", r.Totals)
			}
		}
		if len(want) != 9 {
			t.Errorf("nothing is expected of some lists: %v", slices.Sorted(maps.Keys(want)))
		}
	}
}
