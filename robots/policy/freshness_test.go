package policy

import (
	"reflect"
	"testing"
	"time"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/store"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// noon is the time of the answers in these tests or, for origins without an answer, of
// the first failure.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// after is that long after noon.
func after(d time.Duration) time.Time { return noon.Add(d) }

// answered is a record of an answer at noon with a lifetime of 24 hours.
func answered(status int) store.Record {
	rec := store.Record{Origin: "https://example.com", Status: status, FetchedAt: noon, ExpiresAt: after(day)}
	if status/100 == 2 {
		rec.Body, rec.SHA256 = []byte("User-agent: *\nDisallow: /private/\n"), "5a1e"
	}
	return rec
}

// withoutText is rec as it is kept where the operator has given its status a meaning.
func withoutText(rec store.Record) store.Record {
	rec.Body, rec.SHA256 = nil, ""
	return rec
}

// failing is rec with failures since a time, and the time of the next try.
func failing(rec store.Record, since, next time.Time) store.Record {
	rec.Origin = "https://example.com"
	rec.FailedSince, rec.NextTry = since, next
	rec.FailedStatus, rec.Failures, rec.Cause = 503, 3, "503 Service Unavailable"
	return rec
}

func with(change func(*Options)) Options {
	o := Defaults()
	change(&o)
	return o
}

func TestAssess(t *testing.T) {
	none := store.Record{Origin: "https://example.com"}
	mapped := with(func(o *Options) {
		o.Statuses = map[int]fetch.Meaning{403: fetch.MeansDisallow, 503: fetch.MeansAllow, 429: fetch.MeansUnreachable}
	})
	type want struct {
		outcome Outcome
		allow   bool
		need    Need
	}
	nothingKnown := want{None, false, NeedFetch}
	for _, test := range []struct {
		name string
		opts Options // zero: the defaults
		rec  store.Record
		now  time.Time
		want want
	}{
		{"never fetched", Options{}, none, noon, nothingKnown},

		{"fresh text", Options{}, answered(200), noon, want{Rules, false, NeedNothing}},
		{"fresh 204", Options{}, answered(204), noon, want{Rules, false, NeedNothing}},
		{"fresh 404", Options{}, answered(404), after(17 * hour), want{Unavailable, true, NeedNothing}},
		{"fresh 429", Options{}, answered(429), noon, want{Unavailable, true, NeedNothing}},
		{"429 at three quarters of min_ttl", Options{}, answered(429), after(225 * time.Second), want{Unavailable, true, NeedRefresh}},
		{"429 at min_ttl, as kept for longer by an older version", Options{}, answered(429), after(5 * minute), nothingKnown},
		{"400 at min_ttl", Options{}, answered(400), after(5 * minute), nothingKnown},
		{"414 at min_ttl", Options{}, answered(414), after(5 * minute), nothingKnown},
		{"431 at min_ttl", Options{}, answered(431), after(5 * minute), nothingKnown},
		{"403 at min_ttl", Options{}, answered(403), after(5 * minute), want{Unavailable, true, NeedNothing}},
		{"429, and max_ttl is less than min_ttl was", with(func(o *Options) { o.MinTTL, o.MaxTTL = minute, minute }), answered(429), after(minute), nothingKnown},
		{"too many redirects", Options{}, answered(301), noon, want{Unavailable, true, NeedNothing}},
		{"just before three quarters", Options{}, answered(200), after(18*hour - 1), want{Rules, false, NeedNothing}},
		{"at three quarters", Options{}, answered(200), after(18 * hour), want{Rules, false, NeedRefresh}},
		{"404 at three quarters", Options{}, answered(404), after(18 * hour), want{Unavailable, true, NeedRefresh}},
		{"just before the end", Options{}, answered(200), after(day - 1), want{Rules, false, NeedRefresh}},
		{"at the end", Options{}, answered(200), after(day), nothingKnown},
		{"404 at the end", Options{}, answered(404), after(day), nothingKnown},
		{"long after the end", Options{}, answered(200), after(400 * day), nothingKnown},

		{"refresh failed, next try not due", Options{}, failing(answered(200), after(18*hour), after(18*hour+minute)),
			after(18*hour + 30*time.Second), want{Rules, false, NeedNothing}},
		{"refresh failed, next try due", Options{}, failing(answered(200), after(18*hour), after(18*hour+minute)),
			after(18*hour + minute), want{Rules, false, NeedRefresh}},
		{"over after failed refreshes, next try not due", Options{}, failing(answered(200), after(18*hour), after(day+minute)),
			after(day), want{Unreachable, false, NeedNothing}},
		{"over after failed refreshes, next try due", Options{}, failing(answered(200), after(18*hour), after(day+minute)),
			after(day + minute), want{Unreachable, false, NeedFetch}},

		{"no answer ever, next try not due", Options{}, failing(none, noon, after(minute)), after(30 * time.Second), want{Unreachable, false, NeedNothing}},
		{"no answer ever, next try due", Options{}, failing(none, noon, after(minute)), after(minute), want{Unreachable, false, NeedFetch}},
		{"just before allow_after", Options{}, failing(none, noon, after(30*day-minute)), after(30*day - 1), want{Unreachable, false, NeedFetch}},
		{"at allow_after, next try due", Options{}, failing(none, noon, after(30*day-minute)), after(30 * day), want{UnreachableExpired, true, NeedRefresh}},
		{"at allow_after, next try not due", Options{}, failing(none, noon, after(30*day+minute)), after(30 * day), want{UnreachableExpired, true, NeedNothing}},

		{"text, just before disallow_for", Options{}, failing(answered(200), after(hour), after(hour+30*day+minute)), after(hour + 30*day - 1), want{Unreachable, false, NeedNothing}},
		{"text, at disallow_for", Options{}, failing(answered(200), after(hour), after(hour+30*day+minute)), after(hour + 30*day), want{Rules, false, NeedNothing}},
		{"text, next try due after disallow_for", Options{}, failing(answered(200), after(hour), after(31*day)), after(31 * day), want{Rules, false, NeedRefresh}},
		{"404 has no copy: before allow_after", Options{}, failing(answered(404), after(hour), after(10*day)), after(10*day - minute), want{Unreachable, false, NeedNothing}},
		{"404 has no copy: allow_after", Options{}, failing(answered(404), after(hour), after(31*day)), after(31*day - minute), want{UnreachableExpired, true, NeedNothing}},
		{"disallow_for alone", with(func(o *Options) { o.DisallowFor = 2 * hour }), failing(none, noon, after(3*hour)), after(3*hour - minute), want{Unreachable, false, NeedNothing}},
		{"allow_after alone", with(func(o *Options) { o.AllowAfter = 2 * hour }), failing(answered(200), after(day), after(27*hour)), after(27*hour - minute), want{Unreachable, false, NeedNothing}},
		{"disallow_for within the lifetime", with(func(o *Options) { o.DisallowFor = hour }), failing(answered(200), after(18*hour), after(20*hour)), after(20*hour - minute), want{Rules, false, NeedNothing}},
		{"disallow_for over before the lifetime is", with(func(o *Options) { o.DisallowFor = hour }), failing(answered(200), after(18*hour), after(day+minute)), after(day), want{Rules, false, NeedNothing}},

		{"max_ttl lowered", with(func(o *Options) { o.MaxTTL = hour }), answered(200), after(hour), nothingKnown},
		{"max_ttl lowered, three quarters", with(func(o *Options) { o.MaxTTL = hour }), answered(200), after(45 * minute), want{Rules, false, NeedRefresh}},
		{"from the future", Options{}, answered(200), after(-1), nothingKnown},
		{"from the future, failing", Options{}, failing(answered(200), after(-hour), after(-hour+minute)), after(-hour), want{Unreachable, false, NeedNothing}},
		{"failing since the future", Options{}, failing(none, after(100*day), after(minute)), noon, want{Unreachable, false, NeedNothing}},
		{"next try too far away", Options{}, failing(none, noon, after(11*minute)), noon, want{Unreachable, false, NeedFetch}},
		{"next try no longer too far away", Options{}, failing(none, noon, after(11*minute)), after(minute), want{Unreachable, false, NeedNothing}},

		{"status disallow", mapped, answered(403), noon, want{Status, false, NeedNothing}},
		{"status disallow, three quarters", mapped, answered(403), after(18 * hour), want{Status, false, NeedRefresh}},
		{"status disallow, over", mapped, answered(403), after(day), nothingKnown},
		{"status disallow, allow_after", mapped, failing(answered(403), after(day), after(32*day)), after(32*day - minute), want{UnreachableExpired, true, NeedNothing}},
		{"status allow for what speaks of the request", with(func(o *Options) { o.Statuses = map[int]fetch.Meaning{431: fetch.MeansAllow} }), answered(431), after(17 * hour), want{Status, true, NeedNothing}},
		{"status allow", mapped, answered(503), noon, want{Status, true, NeedNothing}},
		{"status now unreachable", mapped, answered(429), noon, want{Unreachable, false, NeedFetch}},
		{"status now unreachable, tried", mapped, failing(answered(429), noon, after(minute)), noon, want{Unreachable, false, NeedNothing}},
		{"status no longer allowed", Options{}, answered(503), noon, want{Unreachable, false, NeedFetch}},
		{"status no longer disallowed, and its text not read", Options{}, withoutText(answered(200)), noon, nothingKnown},
		{"text not read, failing", Options{}, failing(withoutText(answered(200)), after(hour), after(hour+minute)), after(hour), want{Unreachable, false, NeedNothing}},
		{"text not read, disallow_for and allow_after", Options{}, failing(withoutText(answered(200)), after(hour), after(32*day)), after(32*day - minute), want{UnreachableExpired, true, NeedNothing}},
		{"304", Options{}, answered(304), noon, want{Unavailable, true, NeedNothing}},
		{"soft 5xx", with(func(o *Options) { o.Soft5xx = true }), answered(503), noon, want{Unavailable, true, NeedNothing}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.opts.MaxTTL == 0 {
				test.opts = Defaults()
			}
			test.rec.CDN = fetch.Cloudflare
			a := test.opts.Assess(test.rec, test.now)
			if a.Policy.CDN != fetch.Cloudflare {
				t.Errorf("the network is %q", a.Policy.CDN)
			}
			if got := (want{a.Policy.Outcome, a.Policy.AllowAll, a.Need}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if hasText := a.Policy.SHA256 != ""; hasText != (a.Policy.Outcome == Rules) {
				t.Errorf("outcome %q with sum %q", a.Policy.Outcome, a.Policy.SHA256)
			}
		})
	}
}

func TestPolicyShowsTheFailure(t *testing.T) {
	rec := failing(answered(200), after(20*hour), after(25*hour+minute))
	got := Defaults().Assess(rec, after(25*hour)).Policy
	want := Policy{
		Outcome: Unreachable, Status: 503, Cause: "503 Service Unavailable",
		FetchedAt: noon, ExpiresAt: after(day), UnreachableSince: after(20 * hour), NextTry: after(25*hour + minute),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestUpdate(t *testing.T) {
	opts := Defaults()
	base := failing(answered(200), after(hour), after(2*hour))

	got := opts.Update(base, fetch.Result{Meaning: fetch.MeansNoFile, Status: 404, Lifetime: hour, CDN: fetch.Cloudflare}, after(3*hour+123456), 0)
	want := store.Record{Origin: base.Origin, Status: 404, FetchedAt: after(3 * hour), ExpiresAt: after(4 * hour), CDN: fetch.Cloudflare}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("an answer ends the failures:\ngot  %+v\nwant %+v", got, want)
	}

	got = opts.Update(base, fetch.Result{Meaning: fetch.MeansUnreachable, Status: 500, Cause: "500 Internal Server Error", CDN: fetch.Cloudflare}, after(3*hour), 0)
	want = base
	want.Failures, want.FailedStatus, want.Cause, want.NextTry = 4, 500, "500 Internal Server Error", after(3*hour+2*minute)
	want.CDN = fetch.Cloudflare
	if !reflect.DeepEqual(got, want) {
		t.Errorf("one more failure:\ngot  %+v\nwant %+v", got, want)
	}

	got = opts.Update(store.Record{Origin: base.Origin, FailedSince: after(9 * hour), Failures: 1}, fetch.Result{Meaning: fetch.MeansUnreachable}, after(3*hour), 0)
	if !got.FailedSince.Equal(after(3 * hour)) {
		t.Errorf("failing since %v, which is to come", got.FailedSince)
	}
}

// Once a fetch of its origin has failed, an answer from the future does not count even
// when its time comes.
func TestFutureAnswerIsNeverFreshAgain(t *testing.T) {
	opts := Defaults()
	rec := opts.Update(answered(200), fetch.Result{Meaning: fetch.MeansUnreachable, Status: 503}, after(-hour), 0)
	for _, now := range []time.Time{after(-hour), noon, after(hour), after(17 * hour)} {
		if a := opts.Assess(rec, now); a.Policy.Outcome != Unreachable {
			t.Errorf("at %v: %s", now, a.Policy.Outcome)
		}
	}
	if a := opts.Assess(rec, after(30*day)); a.Policy.Outcome != Rules || a.Policy.SHA256 == "" {
		t.Errorf("it is a copy: got %+v", a)
	}
}

func TestBackoff(t *testing.T) {
	opts := Defaults() // 30 s to 10 min
	for _, test := range []struct {
		failures          int
		shortest, longest time.Duration
	}{
		{1, 30 * time.Second, 30 * time.Second},
		{2, 30 * time.Second, minute},
		{3, minute, 2 * minute},
		{5, 4 * minute, 8 * minute},
		{6, 5 * minute, 10 * minute},
		{1 << 40, 5 * minute, 10 * minute},
	} {
		if got := opts.backoff(test.failures, 0); got != test.shortest {
			t.Errorf("after %d failures: %v at least, want %v", test.failures, got, test.shortest)
		}
		if got := opts.backoff(test.failures, 1); got != test.longest {
			t.Errorf("after %d failures: %v at most, want %v", test.failures, got, test.longest)
		}
	}
}
