package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Versions of a robots.txt for the tests.
var (
	allowsAll  = version{kind: robotsRules, groups: map[string]group{}}
	closesA    = version{kind: robotsRules, groups: map[string]group{"soakbot": {closed: "a"}}}
	outOfOrder = version{kind: robotsFailing}
)

const (
	soakBot  = "SoakBot/1.0 (+https://soak.test/bot)"
	testPath = "/a/shut/1.html"
)

// exchangeOf is an exchange for a page with a fault.
func exchangeOf(fault pageFault) exchange {
	return exchange{origin: &origin{number: 5, address: "192.0.2.15:80"}, path: testPath, agent: soakBot, method: http.MethodGet, page: page{fault: fault, length: 100}}
}

// passed is a response of the origin.
func passed(change func(*outcome)) outcome {
	got := outcome{status: 200, header: http.Header{originField: {"5"}}, octets: 100, complete: true}
	if change != nil {
		change(&got)
	}
	return got
}

// refusedFor is a refusal.
func refusedFor(reason string) outcome {
	return outcome{status: 403, header: http.Header{"Proxy-Status": {"proxy; error=http_request_denied"}}, text: []byte(`{"reason": "` + reason + `", "rule": "Disallow: /a/"}`), complete: true}
}

// failedWith is a failure that the proxy reports.
func failedWith(kind string) outcome {
	return outcome{status: 502, header: http.Header{"Proxy-Status": {"proxy; error=" + kind}}, complete: true}
}

// Each check lets what is right pass, and fails what is wrong.
func TestJudge(t *testing.T) {
	open, shut := witness{versions: []version{allowsAll}}, witness{versions: []version{closesA}}
	in := func(m mood) witness { return witness{versions: []version{allowsAll}, moods: []mood{m}} }
	killed := witness{versions: []version{allowsAll}, killed: true}
	replaced := witness{versions: []version{allowsAll}, replaced: true}
	for _, test := range []struct {
		what   string
		fault  pageFault
		got    outcome
		model  witness
		name   string // if it is right
		broken string // if it is wrong
	}{
		{"whole", faultless, passed(nil), open, "passed: whole", ""},
		{"another body", faultless, passed(func(o *outcome) { o.differs = true }), open, "", "the body is not the origin's"},
		{"a body that is too short", faultless, passed(func(o *outcome) { o.octets = 99 }), open, "", "the body has 99 octets"},
		{"another status", faultless, passed(func(o *outcome) { o.status = 204 }), open, "", "status 204, but the origin's is 200"},
		{"another origin's response", faultless, passed(func(o *outcome) { o.header = http.Header{originField: {"6"}} }), open, "", `its origin is "6"`},
		{"nobody's response", faultless, passed(func(o *outcome) { o.header = nil }), open, "", "neither the origin's nor the proxy's"},
		{"cut short for no reason", faultless, passed(func(o *outcome) { o.complete, o.err = false, io.ErrUnexpectedEOF }), open, "", "is cut short after 100 of 100"},
		{"cut short by a kill", faultless, passed(func(o *outcome) { o.complete = false }), killed, "passed: cut short", ""},
		{"cut short by the origin", cut, passed(func(o *outcome) { o.octets, o.complete = 50, false }), open, "passed: cut short", ""},
		{"a cut body that ends as if it were whole", cut, passed(func(o *outcome) { o.octets = 50 }), open, "", "ends as if it were whole"},
		{"a broken chunk that ends as if it were whole", brokenChunk, passed(func(o *outcome) { o.octets = 50 }), open, "", "ends as if it were whole"},
		{"a redirect elsewhere", circle, passed(func(o *outcome) { o.status = 302; o.header.Set("Location", "http://192.0.2.15:80/") }), open, "", "the Location is"},
		{"a 503 in a burst", faultless, passed(func(o *outcome) { o.status, o.text = 503, []byte(burstText+"\n") }), in(burst), "passed: 5xx burst", ""},
		{"a 503 without a burst", faultless, passed(func(o *outcome) { o.status = 503 }), open, "", "status 503"},
		{"another 503 in a burst", faultless, passed(func(o *outcome) { o.status, o.text = 503, []byte("no") }), in(burst), "", `says "no"`},
		{"a page that is disallowed", faultless, passed(nil), shut, "", "no robots.txt allowed it"},
		{"a page whose robots.txt was never served", faultless, passed(nil), witness{}, "", "no robots.txt allowed it"},
		{"a page whose robots.txt is out of order", faultless, passed(nil), witness{versions: []version{outOfOrder}}, "", "no robots.txt allowed it"},
		{"either version", faultless, passed(nil), witness{versions: []version{closesA, allowsAll}}, "passed: whole", ""},

		{"refused by a rule", faultless, refusedFor("rule"), shut, "refused: rule", ""},
		{"refused by the other version", faultless, refusedFor("rule"), witness{versions: []version{allowsAll, closesA}}, "refused: rule", ""},
		{"refused by a rule that there is not", faultless, refusedFor("rule"), open, "", "though every robots.txt allowed it"},
		{"refused as unreachable", faultless, refusedFor("unreachable"), witness{versions: []version{outOfOrder}}, "refused: unreachable", ""},
		{"refused as unreachable in a mood", faultless, refusedFor("unreachable"), in(down), "refused: unreachable", ""},
		{"refused as unreachable though it was served", faultless, refusedFor("unreachable"), shut, "", "the model does not agree"},
		{"refused for no known reason", faultless, refusedFor("preference"), shut, "", "the model does not agree"},

		{"a page's failure", reset, failedWith("http_response_incomplete"), open, "failed: http_response_incomplete", ""},
		{"a mood's failure", faultless, failedWith("tls_certificate_error"), in(wrongTLS), "failed: tls_certificate_error", ""},
		{"a failure without a fault", faultless, failedWith("http_response_incomplete"), open, "", "though the origin is well"},
		{"another failure than the fault's", silent, failedWith("dns_error"), open, "", "dns_error"},
		{"no place for a connection", faultless, failedWith("connection_limit_reached"), open, "", "connection_limit_reached"},
		{"no response", faultless, outcome{err: errors.New("reset")}, open, "", "no response: reset"},
		{"no response from a proxy that was killed", faultless, outcome{err: errors.New("reset")}, killed, "lost with the proxy", ""},
		{"no response from a proxy that was replaced", faultless, outcome{err: errors.New("reset")}, replaced, "", "no response: reset"},
		{"cut short when the proxy was replaced", faultless, passed(func(o *outcome) { o.complete, o.err = false, io.ErrUnexpectedEOF }), replaced, "", "is cut short"},
	} {
		name, err := judge(exchangeOf(test.fault), test.got, test.model)
		switch {
		case test.broken == "" && (err != nil || name != test.name):
			t.Errorf("%s: %q, %v", test.what, name, err)
		case test.broken != "" && (err == nil || !strings.Contains(err.Error(), test.broken)):
			t.Errorf("%s: %q, %v; want an error with %q", test.what, name, err, test.broken)
		}
	}
}

// A request may be lost on a connection that has carried another, if the next process takes the
// place of the one that it leads to. It may not be lost otherwise.
func TestLostWhenReplaced(t *testing.T) {
	p := &proxy{}
	first := &exchange{proxy: p, origin: &origin{}}
	again := (&exchange{proxy: p, origin: &origin{}}).after(first)
	lost := outcome{err: errors.New("EOF")}
	judged := func(x *exchange) string {
		name, err := judge(*x, lost, x.witness())
		return fmt.Sprint(name, err)
	}
	if got := judged(again); got != "no response: EOF" {
		t.Errorf("before: %s", got)
	}
	p.life, p.replaced = p.life+2, p.replaced+1
	if got := judged(again); got != "lost on a kept connection<nil>" {
		t.Errorf("on a kept connection: %s", got)
	}
	if got := judged(first); got != "no response: EOF" {
		t.Errorf("the first on its connection: %s", got)
	}
	p.life += 2 // killed and started again
	if got := judged(first); got != "lost with the proxy<nil>" {
		t.Errorf("with a process that was killed: %s", got)
	}
}

// A refused request that reaches its origin is noticed, whichever comes first.
func TestRefusedRequestThatReachesItsOrigin(t *testing.T) {
	for _, order := range []string{"before", "after"} {
		c := newChecker()
		o := &origin{address: "192.0.2.15:80", served: []serving{{closesA, time.Now()}, {allowsAll, time.Now()}}}
		x := c.begin(exchange{origin: o, path: testPath, agent: soakBot, method: http.MethodGet})
		r := httptest.NewRequest(http.MethodGet, testPath, nil)
		r.Header = http.Header{idField: {"1"}, "User-Agent": {soakBot}}
		if order == "before" {
			c.reached(o, r)
		}
		c.end(x, refusedFor("rule"))
		if order == "after" {
			c.reached(o, r)
		}
		if text := strings.Join(c.broken, "\n"); len(c.broken) != 1 || !strings.Contains(text, "refused") || !strings.Contains(text, "reached its origin") {
			t.Errorf("%s the refusal: %q", order, c.broken)
		}
	}
}

func TestRepeatedPOST(t *testing.T) {
	for method, broken := range map[string]int{http.MethodGet: 0, http.MethodPost: 1} {
		c := newChecker()
		o := &origin{address: "192.0.2.15:80", served: []serving{{allowsAll, time.Now()}}}
		c.begin(exchange{origin: o, path: testPath, agent: soakBot, method: method})
		r := httptest.NewRequest(method, testPath, nil)
		r.Header = http.Header{idField: {"1"}, "User-Agent": {soakBot}}
		c.reached(o, r)
		c.reached(o, r)
		if len(c.broken) != broken {
			t.Errorf("%s: %q", method, c.broken)
		}
	}
}

// What a client smuggles has no number. It must be allowed all the same, and be a page.
func TestArrival(t *testing.T) {
	shut := witness{versions: []version{closesA}}
	for path, broken := range map[string]bool{"/b/open/1.html": false, testPath: true, "/": true, "/b/open/1.html/..": true} {
		if err := judgeArrival(soakBot, path, shut); (err != nil) != broken {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := judgeArrival(soakBot, "/b/open/1.html", witness{}); err == nil {
		t.Error("a request before any robots.txt was served passes")
	}
}

func TestUpload(t *testing.T) {
	p := page{upload: 10}
	for _, test := range []struct {
		octets  int
		differs bool
		err     error
		broken  bool
	}{{10, false, nil, false}, {9, false, io.ErrUnexpectedEOF, false}, {9, false, nil, true}, {11, false, nil, true}, {10, true, nil, true}} {
		if err := judgeUpload(p, test.octets, test.differs, test.err); (err != nil) != test.broken {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestComparison(t *testing.T) {
	p := pageOf(1, 2, testPath)
	text, err := io.ReadAll(io.LimitReader(p.body(), 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text    []byte
		differs bool
	}{{text, false}, {text[:500], false}, {text[1:], true}, {append(text[:999:999], text[999]^1), true}} {
		got := compareWith(p.body())
		for _, octet := range c.text { // in pieces
			got.Write([]byte{octet})
		}
		if got.differs != c.differs || got.octets != len(c.text) {
			t.Errorf("%d octets: %+v", len(c.text), got)
		}
	}
}

// The model reads its own versions as a person would.
func TestModel(t *testing.T) {
	v := version{kind: robotsRules, number: 3, groups: map[string]group{"soakbot": {closed: "bd", spared: true, noPDF: true}, "*": {closed: "a"}}}
	const want = "# version 3\n\nUser-agent: soakbot\nAllow: /none/\nAllow: /b/open/\nDisallow: /b/\nAllow: /d/open/\nDisallow: /d/\nDisallow: /*.pdf$\n" +
		"\nUser-agent: *\nAllow: /none/\nDisallow: /a/\n"
	if got := v.text(); got != want {
		t.Errorf("the text is\n%s", got)
	}
	for _, test := range []struct {
		agent, path string
		want        bool
	}{
		{soakBot, "/a/shut/1.html", true}, {soakBot, "/a/open/1.pdf", false}, {soakBot, "/b/shut/1.html", false}, {soakBot, "/b/open/1.html", true},
		{soakBot, "/b/open/1.pdf", true}, {soakBot, "/d/shut/1.pdf", false}, {"OtherBot/2.0", "/a/open/1.html", false}, {"OtherBot/2.0", "/b/shut/1.pdf", true},
		{"", "/a/open/1.html", false},
	} {
		if got := v.allows(test.agent, test.path); got != test.want {
			t.Errorf("%s, %s: %t", test.agent, test.path, got)
		}
		for kind, want := range map[robotsKind]bool{robotsMissing: true, robotsCircle: true, robotsBinary: true, robotsFailing: false, robotsCut: false, robotsBadChunk: false} {
			if got := (version{kind: kind, groups: v.groups}).allows(test.agent, test.path); got != want {
				t.Errorf("%s, %s, %s: %t", kind, test.agent, test.path, got)
			}
		}
	}
}

// A line shows a leak in spite of noise and restarts, and takes neither for one.
func TestFit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	samples := func(leak float64) (all []sample) {
		for i := range 1000 {
			at := time.Duration(i) * time.Second
			life := i / 250
			level := 100 + 400*float64(life%2) // of a process, not of the leak
			if i%250 < 20 {
				level /= 2 // it warms up
			}
			all = append(all, sample{life, at, map[string]float64{"goroutines": level + 20*random.NormFloat64() + leak*float64(i%250)}})
		}
		return all
	}
	b := bound{figure: "goroutines", scale: 1, growth: 50}
	if l := fit(samples(0), "goroutines", 30*time.Second); b.check(l) != nil || l.samples != 880 {
		t.Errorf("without a leak: %+v, %v", l, b.check(l))
	}
	if l := fit(samples(0.1), "goroutines", 30*time.Second); b.check(l) == nil || l.growth() < 90 || l.growth() > 110 {
		t.Errorf("with one of 0.1 a second: %+v, growth %f, %v", l, l.growth(), b.check(l))
	}
	if err := b.check(fit(nil, "goroutines", 0)); err == nil {
		t.Error("no samples make a line")
	}
}

// What a proxy has not given back is noticed.
func TestLeftover(t *testing.T) {
	before := map[string]float64{"goroutines": 20, "descriptors": 15}
	for _, test := range []struct {
		goroutines, descriptors float64
		broken                  bool
	}{{22, 15, false}, {20 + spare + 1, 15, true}, {20, 15 + spare + 1, true}} {
		after := map[string]float64{"goroutines": test.goroutines, "descriptors": test.descriptors}
		if err := leftover(before, after); (err != nil) != test.broken {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// A run in which something did not happen proves nothing about it.
func TestCoverage(t *testing.T) {
	s := &soak{checker: newChecker()}
	s.checkCoverage()
	text := strings.Join(s.checker.broken, "\n")
	for _, f := range faults {
		if !strings.Contains(text, f.name) {
			t.Errorf("nobody misses %q", f.name)
		}
	}
}

func TestJournalFindsCalamities(t *testing.T) {
	c := newChecker()
	j := newJournal("the proxy", c)
	io.WriteString(j, `{"level":"info","message":"serving"}`+"\n")
	if len(c.broken) > 0 {
		t.Errorf("%q", c.broken)
	}
	for i, line := range []string{`{"level":"error","panic":"nil","message":"gave up"}`, "panic: nil", "fatal error: all goroutines are asleep", "WARNING: DATA RACE"} {
		if io.WriteString(j, line+"\n"); len(c.broken) != i+1 {
			t.Errorf("%s: %q", line, c.broken)
		}
	}
}

func TestDamagedDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policies.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE a (b TEXT)", "CREATE INDEX c ON a (b)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 1000) INSERT INTO a SELECT hex(randomblob(100)) FROM n"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	db.Close()
	if err := checkDatabase(file); err != nil {
		t.Error(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt(make([]byte, 20_000), 8192)
	f.Close()
	if err := checkDatabase(file); err == nil {
		t.Error("a damaged database passes")
	}
	if err := checkDatabase(file + ".none"); err != nil {
		t.Error(err)
	}
}
