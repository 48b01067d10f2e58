package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/gate"
)

// newAdmin is one that nobody decides for but the test, by enter.
func newAdmin(t *testing.T) *Admin {
	t.Helper()
	g, err := gate.New(gate.Settings{}, nil, nil, zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := New(Setup{Gate: g})
	t.Cleanup(a.Close)
	return a
}

// enter writes down n decisions on https://HOST/0, /1 and so on.
func (a *Admin) enter(host string, n int) {
	for i := range n {
		a.ledger.enter(gate.Decision{Time: time.Now(), Origin: "https://" + host, URL: fmt.Sprintf("https://%s/%d", host, i), Judgment: gate.Allowed})
	}
}

// get asks the API, which answers at once.
func (a *Admin) get(t *testing.T, path string, to any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/"+path, nil)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", path, w.Code, w.Body)
	}
}

type decisionList struct {
	Decisions []gate.Decision
	LastID    string `json:"last_id"`
}

func TestAThousandDecisionsAreKept(t *testing.T) {
	a := newAdmin(t)
	a.enter("old.example", 700)
	a.enter("new.example", 800)
	var all, few decisionList
	a.get(t, "decisions?limit=1000", &all)
	a.get(t, "decisions?limit=3&host=OLD.example", &few)
	if n := len(all.Decisions); n != ledgerSize || all.Decisions[0].URL != "https://new.example/799" || all.Decisions[n-1].URL != "https://old.example/500" {
		t.Errorf("%d decisions, from %v to %v", n, all.Decisions[0], all.Decisions[n-1])
	}
	if len(few.Decisions) != 3 || few.Decisions[0].URL != "https://old.example/699" || few.LastID != all.LastID {
		t.Errorf("filtered: %v", few)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	a := newAdmin(t)
	long := strings.Repeat("é", 64<<10)
	a.ledger.enter(gate.Decision{Method: long, Agent: long, URL: long, Rule: long, Error: long})
	var all decisionList
	a.get(t, "decisions", &all)
	d := all.Decisions[0]
	for _, text := range []string{d.Method, d.Agent, d.URL, d.Rule, d.Error} {
		if len(text) > maxTextLength+len("…") || !strings.HasSuffix(text, "é…") {
			t.Errorf("%d octets: …%s", len(text), text[len(text)-10:])
		}
	}

	// Nor is the text kept that they are a part of: a request line with long credentials.
	line := "GET http://" + long + "@a.example/"
	a.ledger.enter(gate.Decision{Method: line[:3], URL: "http://a.example/"})
	if method := a.ledger.last[2].Method; method != "GET" || unsafe.StringData(method) == unsafe.StringData(line) {
		t.Errorf("the method %q keeps the whole line", method)
	}
}

func TestMinutesOfTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		start := time.Now().Truncate(time.Minute)
		for i := range 90 { // one more in each minute
			for j := range i {
				a.ledger.enter(gate.Decision{Time: time.Now(), Refused: j == 0, WaitMS: float64(99 + j)})
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(9 * time.Minute) // in which nothing happens
		var activity struct {
			Minutes []struct {
				Time                     time.Time
				Allowed, Refused, Waited int
			}
		}
		a.get(t, "activity", &activity)
		for i, m := range activity.Minutes {
			number := i + 40
			all := number
			if number >= 90 {
				all = 0
			}
			if !m.Time.Equal(start.Add(time.Duration(number)*time.Minute)) || m.Allowed+m.Refused != all || m.Refused != min(all, 1) || m.Waited != max(all-1, 0) {
				t.Errorf("minute %d: %+v", number, m)
			}
		}
	})
}

func TestHits(t *testing.T) {
	h := newHits()
	add := func(line int, change ...func(*gate.Decision)) {
		d := gate.Decision{Origin: "https://a.example", RobotsSHA256: "1", Line: line, Reason: gate.ByRule}
		for _, f := range change {
			f(&d)
		}
		h.add(&d)
	}
	at := func(n int) line { return line{"https://a.example", "1", n} }
	add(1)
	add(1, func(d *gate.Decision) { d.Reason = gate.NoRule }) // by an empty rule
	for _, other := range []func(*gate.Decision){
		func(d *gate.Decision) { d.Origin = "https://b.example" },
		func(d *gate.Decision) { d.RobotsSHA256 = "2" },         // the site has changed it
		func(d *gate.Decision) { d.RobotsSHA256 = "" },          // an operator's file
		func(d *gate.Decision) { d.Reason = gate.OpaqueTunnel }, // a tunnel is no path
		func(d *gate.Decision) { d.Line = 0 },
	} {
		add(1, other)
	}
	if got := h.of(at(1)); got != 2 {
		t.Errorf("%d hits", got)
	}
	for i := range maxCountedLines {
		add(i + 2)
		if i%1000 == 0 {
			add(1) // it is of use still
		}
	}
	if len(h.counts) != maxCountedLines || h.order.Len() != maxCountedLines || h.of(at(1)) < 2 || h.of(at(2)) != 0 {
		t.Errorf("%d rules are maxCountedLines, that in use %d times, the oldest %d times", len(h.counts), h.of(at(1)), h.of(at(2)))
	}
}

// A watcher is one who reads a stream, and who may stop reading.
type watcher struct {
	*httptest.ResponseRecorder
	reads chan struct{} // holds a value while it reads; who takes it may look at the body
}

func (w *watcher) Write(p []byte) (int, error) {
	<-w.reads
	defer func() { w.reads <- struct{}{} }()
	return w.ResponseRecorder.Write(p)
}

// watch has a watcher watch until the test ends.
func (a *Admin) watch(t *testing.T, query string) *watcher {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	w := &watcher{httptest.NewRecorder(), make(chan struct{}, 1)}
	w.reads <- struct{}{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/decisions/stream"+query, nil)
		a.ServeHTTP(w, r.WithContext(ctx))
	}()
	t.Cleanup(func() {
		leave()
		<-ended
	})
	synctest.Wait()
	return w
}

// events are the lines of a kind that a watcher has got since it was last asked.
func (w *watcher) events(field string) (values []string) {
	time.Sleep(streamPoll)
	synctest.Wait()
	<-w.reads
	defer func() { w.reads <- struct{}{} }()
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			values = append(values, strings.TrimSpace(value))
		}
	}
	w.Body.Reset()
	return values
}

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		a.enter("before.example", 3)
		all, some := a.watch(t, ""), a.watch(t, "?host=some.example")
		again := a.watch(t, "?after="+a.eventID(1))
		if n := len(again.events("data")); n != 2 {
			t.Errorf("%d decisions have come since the first, want 2", n)
		}
		a.enter("some.example", 100)
		a.enter("other.example", 150)
		if got := some.events("data"); len(got) != 100 || !strings.Contains(got[99], "https://some.example/99") {
			t.Errorf("by filter: %q", got)
		}
		ids := all.events("id")
		if len(ids) != 250 || ids[249] != a.eventID(253) || a.numberOf(ids[249]) != 253 {
			t.Errorf("IDs %q", ids)
		}
		if got := all.events("data"); got != nil {
			t.Errorf("nothing new is %q", got)
		}
		time.Sleep(3 * heartbeat)
		if got := all.events(""); len(got) < 2 || len(got) > 4 {
			t.Errorf("%d heartbeats in %v", len(got), 3*heartbeat)
		}
	})
}

// One who does not read is in nobody's way, and is told what it has missed.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		slow := a.watch(t, "")
		<-slow.reads
		a.enter("first.example", 10)
		time.Sleep(time.Second)
		synctest.Wait() // it hangs in a write
		a.enter("second.example", 5*ledgerSize)
		if n := a.ledger.newest(); n != 10+5*ledgerSize {
			t.Errorf("%d decisions are written down", n)
		}
		slow.reads <- struct{}{}
		time.Sleep(streamPoll)
		synctest.Wait()
		<-slow.reads
		defer func() { slow.reads <- struct{}{} }()
		text := slow.Body.String()
		want := fmt.Sprintf("event: dropped\nid: %s\ndata: {\"dropped\":%d}\n", a.eventID(10+4*ledgerSize), 4*ledgerSize)
		if strings.Count(text, "data: ") != 10+1+ledgerSize || !strings.Contains(text, want) {
			t.Errorf("%d events, want %d and\n%s", strings.Count(text, "data: "), 10+1+ledgerSize, want)
		}
	})
}

func TestStreamsEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/decisions/stream", nil))
		}()
		synctest.Wait()
		a.Close()
		a.Close()
		<-ended
	})
}
