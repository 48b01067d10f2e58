package pace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"robotsproxy/internal/keyerr"

	"robotsproxy/proxy/pace/fleet"
)

const second = time.Second

// stand is a pacer and a record of which request started when.
type stand struct {
	*Pacer
	t     *testing.T
	begun time.Time

	mu      sync.Mutex
	started []start
	late    map[string]time.Duration
	why     map[string]*Late
	left    []string
}

type start struct {
	who string
	at  time.Duration
}

func (s start) String() string { return fmt.Sprintf("%s at %v", s.who, s.at) }

// newStand returns a pacer. change changes the default options. At the end of the test the
// pacer must have no state left.
func newStand(t *testing.T, change func(*Options)) *stand {
	t.Helper()
	opts := Defaults()
	if change != nil {
		change(&opts)
	}
	p := New(opts, nil, zerolog.Nop(), nil)
	return &stand{Pacer: p, t: t, begun: time.Now(), late: map[string]time.Duration{}, why: map[string]*Late{}}
}

// of returns a request of one bot at a site that states a delay.
func of(delay time.Duration) Request {
	return Request{Origin: "https://example.com", Identity: "default", Group: "bot", Delay: delay, Stated: true}
}

// ask makes a request wait for its turn and then take so long. It returns when the request
// is in its lane.
func (s *stand) ask(who string, r Request, takes time.Duration) {
	s.askFor(context.Background(), who, r, takes)
}

func (s *stand) askFor(ctx context.Context, who string, r Request, takes time.Duration) {
	go func() {
		permit, err := s.Wait(ctx, r)
		s.mu.Lock()
		var late *Late
		switch {
		case errors.As(err, &late):
			s.late[who] = late.Wait
			s.why[who] = late
		case err != nil:
			s.left = append(s.left, who)
		default:
			s.started = append(s.started, start{who, time.Since(s.begun)})
		}
		s.mu.Unlock()
		if err == nil {
			time.Sleep(takes)
			permit.Release()
		}
	}()
	synctest.Wait()
}

// wantStarts waits until nothing more happens, and compares the starts.
func (s *stand) wantStarts(want ...start) {
	s.t.Helper()
	time.Sleep(time.Hour)
	synctest.Wait()
	// Requests that start at the same moment are recorded in any order.
	slices.SortFunc(s.started, func(a, b start) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who)) })
	if !slices.Equal(s.started, want) {
		s.t.Errorf("started: %v\nwant     %v", s.started, want)
	}
	s.wantNothingKnown()
}

func (s *stand) wantNothingKnown() {
	s.t.Helper()
	s.Pacer.mu.Lock()
	defer s.Pacer.mu.Unlock()
	if len(s.sites) > 0 || s.holds.Load() != 0 {
		s.t.Errorf("%d sites are known still, %d held", len(s.sites), s.holds.Load())
	}
	if n := testutil.ToFloat64(s.waiting); n != 0 {
		s.t.Errorf("%v requests wait", n)
	}
}

func TestTurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		for _, who := range []string{"a", "b", "c"} {
			s.ask(who, of(2*second), 10*second) // how long they take does not matter
		}
		time.Sleep(7 * second) // the last delay is over
		s.ask("d", of(2*second), 0)
		time.Sleep(second)
		s.ask("e", of(2*second), 0)
		s.wantStarts(start{"a", 0}, start{"b", 2 * second}, start{"c", 4 * second}, start{"d", 7 * second}, start{"e", 9 * second})
		if got := testutil.ToFloat64(s.seconds); got != 2+4+1 {
			t.Errorf("%v seconds were waited", got)
		}
	})
}

// Each origin, identity and group has its own turns.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		other := of(second)
		other.Origin = "http://example.com"
		s.ask("origin", other, 0)
		other = of(second)
		other.Identity = "images"
		s.ask("identity", other, 0)
		other = of(second)
		other.Group = "other"
		s.ask("group", other, 0)
		s.ask("a", of(second), 0)
		s.ask("b", of(second), 0)
		s.wantStarts(start{"a", 0}, start{"group", 0}, start{"identity", 0}, start{"origin", 0}, start{"b", second})
	})
}

func TestDelays(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		delay  time.Duration
		stated bool
		want   time.Duration // between two starts
	}{
		"stated":                    {nil, 3 * second, true, 3 * second},
		"none":                      {nil, 0, false, 0},
		"stated as none":            {func(o *Options) { o.DefaultDelay = second }, 0, true, 0},
		"the default":               {func(o *Options) { o.DefaultDelay = second }, 0, false, second},
		"more than the max":         {func(o *Options) { o.MaxCrawlDelay = 5 * second }, time.Hour, true, 5 * second},
		"off":                       {func(o *Options) { o.CrawlDelay = false }, 3 * second, true, 0},
		"less than the floor":       {func(o *Options) { o.MinDelay = 4 * second }, 3 * second, true, 4 * second},
		"more than the floor":       {func(o *Options) { o.MinDelay = 2 * second }, 3 * second, true, 3 * second},
		"none, the floor":           {func(o *Options) { o.MinDelay = second }, 0, false, second},
		"stated as none, a floor":   {func(o *Options) { o.MinDelay = second }, 0, true, second},
		"off, the floor":            {func(o *Options) { o.CrawlDelay, o.MinDelay = false, second }, 3 * second, true, second},
		"the floor is over the max": {func(o *Options) { o.MaxCrawlDelay, o.MinDelay = second, 2*second }, time.Hour, true, 2 * second},
		"off, the default":          {func(o *Options) { o.CrawlDelay = false; o.DefaultDelay = second }, 3 * second, true, second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, test.change)
				r := of(test.delay)
				r.Stated = test.stated
				s.ask("a", r, 0)
				s.ask("b", r, 0)
				s.wantStarts(start{"a", 0}, start{"b", test.want})
			})
		})
	}
}

// A request that would wait too long is refused at once, and takes no turn.
func TestMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxWait = 10 * second })
		for _, who := range []string{"a", "b", "c", "late", "late too"} {
			s.ask(who, of(5*second), 0)
		}
		if s.late["late"] != 15*second || s.late["late too"] != 15*second {
			t.Errorf("late are %v", s.late)
		}
		time.Sleep(5 * second)
		s.ask("d", of(5*second), 0)
		s.wantStarts(start{"a", 0}, start{"b", 5 * second}, start{"c", 10 * second}, start{"d", 15 * second})
		if got := testutil.ToFloat64(s.Pacer.late); got != 2 {
			t.Errorf("%v late requests were counted", got)
		}
	})
}

// The cause of the wait decides what the client is told, and what it is advised to do.
func TestWhyLate(t *testing.T) {
	for name, test := range map[string]struct {
		options func(*Options)
		delay   time.Duration
		hold    time.Duration
		before  int // requests
		want    Late
		says    string
		advises string
	}{
		"many at once": {
			delay: 8 * second, before: 2,
			want: Late{Wait: 16 * second, Max: 10 * second, Delay: 8 * second, cause: crowd},
			says: "other requests are before it; ask again in 16s", advises: "Fewer requests at once",
		},
		"one after another, and a long delay": {
			delay: 40 * second, before: 1,
			want: Late{Wait: 40 * second, Max: 10 * second, Delay: 40 * second, cause: longDelay},
			says: "the delay between two requests is 40s; ask again in 40s", advises: "raise pace.max_wait to 40s",
		},
		"a pause that the origin asked for": {
			hold: time.Minute,
			want: Late{Wait: time.Minute, Max: 10 * second, cause: heldByOrigin},
			says: "the origin has asked for a pause (Retry-After); ask again in 1m0s", advises: "the origin wants no requests",
		},
		"a short pause and many at once": {
			delay: 6 * second, hold: 5 * second, before: 1,
			want: Late{Wait: 11 * second, Max: 10 * second, Delay: 6 * second, cause: crowd},
			says: "other requests are before it", advises: "Fewer requests at once",
		},
		"requests that do not end": {
			options: func(o *Options) { o.MaxInFlight = 1 }, before: 1,
			want: Late{Wait: second, Max: 10 * second, cause: noPermit},
			says: "pace.max_in_flight others have not ended", advises: "a larger pace.max_in_flight",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t, func(o *Options) {
					o.MaxWait = 10 * second
					if test.options != nil {
						test.options(o)
					}
				})
				s.Hold(of(test.delay), test.hold)
				for i := range test.before {
					s.ask(fmt.Sprint(i), of(test.delay), time.Minute)
				}
				s.ask("late", of(test.delay), 0)
				time.Sleep(10 * second)
				synctest.Wait()
				late := s.why["late"]
				if late != nil {
					if (late.Hold != nil) != (test.hold > 0) {
						t.Errorf("it is held by %v", late.Hold)
					}
					late.Hold = nil
				}
				if late == nil || *late != test.want {
					t.Fatalf("it is told %+v, want %+v", late, test.want)
				}
				if got := late.Error(); !strings.Contains(got, "within pace.max_wait (10s): "+test.says) {
					t.Errorf("it says %q, want %q", got, test.says)
				}
				if got := late.Advice(); !strings.Contains(got, test.advises) {
					t.Errorf("it advises %q, want %q", got, test.advises)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestWarnings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   []string // parts of the warnings
	}{
		"the defaults":                   {func(*Options) {}, nil},
		"a stated delay is longer":       {func(o *Options) { o.MaxWait = 59 * second }, []string{"max_wait: 59s is shorter than max_crawl_delay (1m0s)"}},
		"a stated delay is as long":      {func(o *Options) { o.MaxWait = time.Minute }, nil},
		"no stated delay is honoured":    {func(o *Options) { o.MaxWait, o.CrawlDelay = second, false }, nil},
		"the default delay is longer":    {func(o *Options) { o.DefaultDelay = time.Hour }, []string{"max_wait: 5m0s is shorter than default_delay (1h0m0s)"}},
		"the floor is longer":            {func(o *Options) { o.MinDelay = time.Hour }, []string{"max_wait: 5m0s is shorter than min_delay (1h0m0s)"}},
		"both are longer than one wait":  {func(o *Options) { o.MaxWait, o.DefaultDelay = second, time.Hour }, []string{"max_crawl_delay", "default_delay"}},
		"a longer one is never honoured": {func(o *Options) { o.MaxWait, o.MaxCrawlDelay = 10*second, 10*second }, nil},
	} {
		opts := Defaults()
		test.change(&opts)
		got := keyerr.All(opts.Warnings())
		if len(got) != len(test.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i].Error(), test.want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i].Error(), test.want[i])
			}
		}
	}
}

// The requests behind one that leaves move up, wherever it stood.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxWait = 10 * second })
		first, leaveFirst := context.WithCancel(context.Background())
		middle, leaveMiddle := context.WithCancel(context.Background())
		last, leaveLast := context.WithCancel(context.Background())
		s.ask("a", of(2*second), 0)
		s.askFor(first, "first", of(2*second), 0)
		s.ask("b", of(2*second), 0)
		s.askFor(middle, "middle", of(2*second), 0)
		s.ask("c", of(2*second), 0)
		s.askFor(last, "last", of(2*second), 0)
		s.ask("late", of(2*second), 0)
		time.Sleep(second)
		leaveMiddle()
		leaveFirst()
		leaveLast()
		synctest.Wait()
		s.ask("d", of(2*second), 0)
		s.wantStarts(start{"a", 0}, start{"b", 2 * second}, start{"c", 4 * second}, start{"d", 6 * second})
		if len(s.late) != 1 || len(s.left) != 3 {
			t.Errorf("late: %v, left: %v", s.late, s.left)
		}
	})
}

// Many requests come and leave at all times. The order is kept, no two starts are nearer than
// the delay, and no turn is lost while a request waits.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, clients = 100 * time.Millisecond, 1000
		s := newStand(t, func(o *Options) { o.MaxWait = time.Hour })
		random := rand.New(rand.NewPCG(1, 2))
		stayed := 0
		for i := range clients {
			ctx, cancel := context.WithCancel(context.Background())
			if i%3 == 1 {
				time.AfterFunc(time.Duration(random.Int64N(int64(2*time.Minute))), cancel)
			} else {
				stayed++
				defer cancel()
			}
			s.askFor(ctx, fmt.Sprintf("%04d", i), of(delay), 0)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		s.wantNothingKnown()
		if n := len(s.started); n < stayed || n+len(s.left) != clients {
			t.Fatalf("%d started, %d left", n, len(s.left))
		}
		for i, a := range s.started[1:] {
			if before := s.started[i]; a.who <= before.who || a.at != before.at+delay {
				t.Fatalf("%v comes after %v", a, before)
			}
		}
	})
}

// An origin's Retry-After holds new and waiting requests to it, and no others.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxWait = 10 * second })
		for _, who := range []string{"a", "b", "c", "d", "e", "f"} {
			s.ask(who, of(2*second), 0)
		}
		time.Sleep(second)
		s.Hold(of(2*second), 8*second) // until 9
		s.Hold(of(2*second), second)   // shortens nothing
		synctest.Wait()
		if len(s.late) != 4 || s.late["c"] != 10*second || s.late["f"] != 10*second {
			t.Errorf("late are %v", s.late) // b may go at 9, c at 11 had waited for too long
		}
		free := of(0) // is held too
		free.Group = "Other"
		s.ask("free", free, 0)
		s.ask("free too", free, 0)
		other := free
		other.Identity = "images"
		s.ask("other", other, 0)
		s.ask("g", of(2*second), 0)
		s.Hold(free, 10*second) // until 11: b has waited for too long
		synctest.Wait()
		if s.late["b"] != 10*second {
			t.Errorf("late are %v", s.late)
		}
		s.wantStarts(start{"a", 0}, start{"other", second}, start{"free", 11 * second}, start{"free too", 11 * second}, start{"g", 11 * second})
	})
}

// Requests of a fleet have their turns already when a hold comes. They do not all start when
// it ends.
func TestHoldInAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		r := of(2 * second)
		var starts sync.WaitGroup
		for i := range 4 {
			w := &waiter{delay: r.Delay, arrived: s.begun, maxWait: 30 * second, slot: &fleet.Turn{At: s.begun.Add(time.Duration(i) * r.Delay)}, turn: make(chan error, 1)}
			s.join(&r, w)
			starts.Go(func() {
				<-w.turn
				s.mu.Lock()
				defer s.mu.Unlock()
				s.started = append(s.started, start{fmt.Sprint(i), time.Since(s.begun)})
			})
		}
		time.Sleep(second)
		s.Hold(r, 20*second)
		time.Sleep(9 * second)
		opts := Defaults()
		opts.RetryAfter = false
		s.SetOptions(opts)
		starts.Wait()
		s.wantStarts(start{"0", 0}, start{"1", 10 * second}, start{"2", 12 * second}, start{"3", 14 * second})
	})
}

// The order of arrival is kept, whatever the order of the fleet's turns.
func TestSlotsGoByTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		r := of(2 * second)
		var l *lane
		var waiters []*waiter
		for _, slot := range []time.Duration{4, 8, -1, 2, 6} { // -1: Redis is away
			w := &waiter{delay: r.Delay, arrived: s.begun, maxWait: 30 * second, turn: make(chan error, 1)}
			if slot >= 0 {
				w.slot = &fleet.Turn{At: s.begun.Add(slot * second)}
			}
			s.join(&r, w)
			l = w.lane
			waiters = append(waiters, w)
		}
		want := func(slots ...int) {
			t.Helper()
			s.Pacer.mu.Lock()
			defer s.Pacer.mu.Unlock()
			for i, at := 0, l.waiters.Front(); at != nil; i, at = i+1, at.Next() {
				got := -1
				if w := at.Value.(*waiter); w.slot != nil {
					got = int(w.slot.At.Sub(s.begun) / second)
				}
				if i >= len(slots) || got != slots[i] {
					t.Errorf("number %d has the slot at %d s, want %v", i, got, slots)
				}
			}
		}
		want(2, 4, -1, 6, 8)
		s.leave(waiters[1], context.Canceled)
		want(2, -1, 4, 6)
		if given := waiters[1].slot.At.Sub(s.begun); given != 8*second {
			t.Errorf("the slot at %v is given back", given)
		}
		for _, i := range []int{0, 2, 3, 4} {
			<-waiters[i].turn
			s.started = append(s.started, start{fmt.Sprint(i), time.Since(s.begun)})
		}
		s.wantStarts(start{"0", 2 * second}, start{"2", 4 * second}, start{"3", 6 * second}, start{"4", 8 * second})
	})
}

func TestHoldThatIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		s.Hold(of(0), 1000*time.Hour)
		s.ask("late", of(0), 0)
		if s.late["late"] != 24*time.Hour {
			t.Errorf("late are %v", s.late)
		}
		time.Sleep(24 * time.Hour)
		s.wantStarts()
		s.SetOptions(Options{MaxWait: second})
		s.Hold(of(0), time.Minute)
		s.wantNothingKnown()
	})
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxInFlight, o.MaxWait = 2, 10*second })
		free, other, elsewhere := of(0), of(0), of(0)
		other.Group = "Other"
		elsewhere.Origin = "http://example.com"
		s.ask("a", free, 3*second)
		s.ask("b", other, 5*second) // counts with the others of its identity
		s.ask("c", free, 9*second)
		s.ask("d", other, 5*second+second/2)
		s.ask("elsewhere", elsewhere, 0)
		leaving, leave := context.WithCancel(context.Background())
		s.askFor(leaving, "leaves", free, 0)
		s.ask("waits too long", free, 0)
		time.Sleep(second)
		leave()
		s.ask("e", free, 0)
		s.wantStarts(start{"a", 0}, start{"b", 0}, start{"elsewhere", 0}, start{"c", 3 * second}, start{"d", 5 * second}, start{"e", 10*second + second/2})
		if s.late["waits too long"] != second {
			t.Errorf("late are %v", s.late)
		}
	})
}

// Requests that leave are forgotten, even while no permit is free.
func TestInFlightAndLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxInFlight = 1 })
		s.ask("a", of(0), time.Minute)
		for i := range 10 {
			r := of(0)
			r.Group = fmt.Sprint(i)
			ctx, leave := context.WithCancel(context.Background())
			s.askFor(ctx, "leaves", r, 0)
			leave()
		}
		synctest.Wait()
		r := of(0)
		s.Pacer.mu.Lock()
		site := s.sites[r.site()]
		if len(site.lanes) != 0 || len(site.stalled) != 0 {
			t.Errorf("%d lanes are known, %d of them wait for a permit", len(site.lanes), len(site.stalled))
		}
		s.Pacer.mu.Unlock()
		s.wantStarts(start{"a", 0})
	})
}

// A wait for a permit does not shorten the delay after it.
func TestInFlightAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxInFlight = 1 })
		for _, who := range []string{"a", "b", "c", "d"} {
			s.ask(who, of(2*second), map[string]time.Duration{"a": 5 * second}[who])
		}
		s.wantStarts(start{"a", 0}, start{"b", 5 * second}, start{"c", 7 * second}, start{"d", 9 * second})
	})
}

func TestOptionsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxInFlight = 1 })
		for _, who := range []string{"a", "b", "c"} {
			s.ask(who, of(0), time.Minute)
		}
		time.Sleep(second)
		more := Defaults()
		more.MaxInFlight = 2
		s.SetOptions(more)
		synctest.Wait()
		time.Sleep(second)
		s.SetOptions(Defaults())
		synctest.Wait()
		s.ask("d", of(0), 0)
		s.wantStarts(start{"a", 0}, start{"b", second}, start{"c", 2 * second}, start{"d", 2 * second})
	})
}

// If a bound on the requests in flight is set, waiting requests wait no longer than before.
func TestBoundComesWhileSomeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, func(o *Options) { o.MaxWait = 10 * second })
		for _, who := range []string{"a", "b", "c"} {
			s.ask(who, of(2*second), time.Minute)
		}
		time.Sleep(second)
		bounded := Defaults()
		bounded.MaxInFlight = 1
		s.SetOptions(bounded)
		time.Sleep(9 * second)
		synctest.Wait()
		if _, late := s.late["c"]; !late {
			t.Errorf("c waits still; late are %v", s.late)
		}
		s.wantStarts(start{"a", 0}, start{"b", 2 * second})
	})
}

// If RetryAfter is turned off, present holds end too.
func TestHoldsEndWithRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		s.ask("a", of(2*second), 0)
		s.Hold(of(0), 20*second)
		s.ask("b", of(2*second), 0)
		s.ask("c", of(2*second), 0)
		free := of(0)
		free.Group = "Other"
		s.ask("free", free, 0)
		idle := of(0)
		idle.Origin = "http://example.com"
		s.Hold(idle, 24*time.Hour)
		time.Sleep(5 * second)
		opts := Defaults()
		opts.RetryAfter = false
		s.SetOptions(opts)
		synctest.Wait()
		s.ask("idle", idle, 0)
		s.wantStarts(start{"a", 0}, start{"b", 5 * second}, start{"free", 5 * second}, start{"idle", 5 * second}, start{"c", 7 * second})
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		value, date string
		want        time.Duration // negative: none
	}{
		{"120", "", 2 * time.Minute},
		{" 1 ", "", second},
		{"0", "", 0},
		{"99999999999999999999999999", "", 24 * time.Hour},
		{"4294967295", "", 24 * time.Hour},
		{"86401", "", 24 * time.Hour},
		{"Fri, 02 Jan 2026 03:05:05 GMT", "", time.Minute},
		{"Friday, 02-Jan-26 03:05:05 GMT", "", time.Minute},
		{"Fri, 02 Jan 2026 03:05:05 GMT", "Fri, 02 Jan 2026 03:04:35 GMT", 30 * second}, // a clock that goes ahead
		{"Fri, 02 Jan 2026 03:05:05 GMT", "today", time.Minute},
		{"Fri, 02 Jan 2026 03:00:00 GMT", "", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", 24 * time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", 24 * time.Hour},
		{"Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", 0},
		{"", "", -1}, {"-1", "", -1}, {"+1", "", -1}, {"1.5", "", -1}, {"1e3", "", -1}, {"soon", "", -1}, {"120, 60", "", -1},
	} {
		h := http.Header{"Retry-After": {test.value}, "Date": {test.date}}
		got, ok := RetryAfter(h, now)
		if ok != (test.want >= 0) || ok && got != test.want {
			t.Errorf("%q after %q: %v, %v; want %v", test.value, test.date, got, ok, test.want)
		}
	}
	if _, ok := RetryAfter(http.Header{}, now); ok {
		t.Error("no Retry-After says something")
	}
}

// BenchmarkUnpaced measures a request that need not wait.
func BenchmarkUnpaced(b *testing.B) {
	for name, held := range map[string]bool{"held=none": false, "held=another": true} {
		b.Run(name, func(b *testing.B) {
			p := New(Defaults(), nil, zerolog.Nop(), nil)
			if held {
				p.Hold(of(0), 24*time.Hour)
			}
			r := of(0)
			r.Origin = "https://example.org"
			b.ReportAllocs()
			for b.Loop() {
				permit, err := p.Wait(context.Background(), r)
				if err != nil {
					b.Fatal(err)
				}
				permit.Release()
			}
		})
	}
}

// BenchmarkTurn measures a request whose delay is over.
func BenchmarkTurn(b *testing.B) {
	p := New(Defaults(), nil, zerolog.Nop(), nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Wait(context.Background(), of(1)); err != nil {
			b.Fatal(err)
		}
	}
}
