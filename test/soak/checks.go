package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What the proxies' configuration says of robots.txt, and how far back an answer that rules now
// may have been served: its lifetime, the longest fetch, and what a slow machine adds.
const (
	lifetime     = 5 * time.Second
	fetchTimeout = 10 * time.Second
	rulesFor     = lifetime + fetchTimeout + 5*time.Second
)

// An exchange is one request of a client, and what became of it.
type exchange struct {
	id      uint64
	origin  *origin
	path    string
	agent   string
	method  string
	door    string
	page    page
	started time.Time
	proxy   *proxy // nil if it is a sealed command's own
	life    int    // which life of the proxy's it began in
	place   int    // see proxy.currentPlace
	isAgain bool   // it is not the first on its connection

	arrivals int // how often it has come to its origin
}

// after says that an exchange follows the first one on its connection: it goes to the same process,
// also if another has that one's place by now.
func (x *exchange) after(first *exchange) *exchange {
	x.life, x.place, x.isAgain = first.life, first.place, true
	return x
}

// An outcome is what a client got.
type outcome struct {
	status   int // 0: no response
	header   http.Header
	octets   int    // of the body
	differs  bool   // the body is not the page's
	text     []byte // the body's beginning
	complete bool   // the body has ended as a whole one does
	err      error
}

// A witness is what the model knows about the time of an exchange.
type witness struct {
	versions []version // of the robots.txt, that may have ruled
	moods    []mood    // of the origin
	killed   bool      // the proxy has been killed or stopped meanwhile
	replaced bool      // the next process has taken the proxy's place meanwhile
}

func (w witness) allows(agent, path string) bool {
	return slices.ContainsFunc(w.versions, func(v version) bool { return v.allows(agent, path) })
}

func (w witness) disallows(agent, path string) bool {
	return slices.ContainsFunc(w.versions, func(v version) bool { return !v.isUnreachable() && !v.allows(agent, path) })
}

func (w witness) unreachable() bool {
	return len(w.moods) > 0 || slices.ContainsFunc(w.versions, version.isUnreachable)
}

// failuresOf are the error types (RFC 9209) by which a proxy may report each fault of a page,
// and each mood.
var (
	failuresOf = map[pageFault][]string{
		cut:         {"http_response_incomplete"},
		brokenChunk: {"http_response_incomplete", "http_protocol_error"},
		reset:       {"http_response_incomplete"},
		garbled:     {"http_response_incomplete", "http_protocol_error"},
		silent:      {"http_response_timeout"},
	}
	failuresIn = map[mood][]string{
		down:     {"connection_refused", "http_response_incomplete", "connection_timeout", "tls_protocol_error"},
		wrongTLS: {"tls_certificate_error"},
	}
)

// mayFail says whether a proxy may report an error of this type.
func (w witness) mayFail(p page, kind string) bool {
	return slices.Contains(failuresOf[p.fault], kind) ||
		slices.ContainsFunc(w.moods, func(m mood) bool { return slices.Contains(failuresIn[m], kind) })
}

// isCutShort says whether a response may end before its body does.
func (w witness) isCutShort(p page) bool {
	return p.fault == cut || p.fault == brokenChunk || p.fault == endless || slices.Contains(w.moods, down)
}

var errorType = regexp.MustCompile(`; ?error=([a-z_]+)`)

// judge compares what a client got with what it may have got. It returns a name for what
// it was, for the figures, or what is wrong with it.
func judge(x exchange, got outcome, w witness) (name string, err error) {
	status := got.header.Get("Proxy-Status")
	switch kind := errorType.FindStringSubmatch(status); {
	case got.status == 0 && w.killed:
		return "lost with the proxy", nil
	case got.status == 0 && w.replaced && x.isAgain: // the connection ends when it is idle (RFC 9112 9.5)
		return "lost on a kept connection", nil
	case got.status == 0:
		return "", fmt.Errorf("no response: %w", got.err)
	case status == "" && !x.origin.isMine(got.header):
		return "", fmt.Errorf("a response with status %d that is neither the origin's nor the proxy's; its origin is %q", got.status, got.header.Get(originField))
	case status == "":
		return judgePage(x, got, w)
	case kind == nil:
		return "", fmt.Errorf("status %d with Proxy-Status %q, which has no error type", got.status, status)
	case kind[1] == "http_request_denied":
		return judgeRefusal(x, got, w)
	case w.mayFail(x.page, kind[1]):
		return "failed: " + kind[1], nil
	default:
		return "", fmt.Errorf("status %d, %s, though the origin is well and the page's fault is %s", got.status, status, x.page.fault)
	}
}

// judgePage checks the response of an origin.
func judgePage(x exchange, got outcome, w witness) (name string, err error) {
	if !w.allows(x.agent, x.path) {
		return "", fmt.Errorf("the origin answered, though no robots.txt allowed it")
	}
	if got.status == http.StatusServiceUnavailable && slices.Contains(w.moods, burst) {
		if text := string(got.text); x.method != http.MethodHead && got.complete && !strings.Contains(text, burstText) {
			return "", fmt.Errorf("the origin's 503 says %q", text)
		}
		return "passed: 5xx burst", nil
	}
	switch {
	case got.status != x.page.status():
		return "", fmt.Errorf("status %d, but the origin's is %d", got.status, x.page.status())
	case x.page.fault == circle && got.header.Get("Location") != x.origin.url(x.path):
		return "", fmt.Errorf("the Location is %q", got.header.Get("Location"))
	case x.method == http.MethodHead:
		return "passed: HEAD", nil
	case got.differs:
		return "", fmt.Errorf("the body is not the origin's: it differs within %d octets", got.octets)
	case got.complete && (x.page.fault == cut || x.page.fault == brokenChunk || x.page.fault == endless):
		return "", fmt.Errorf("the origin's response has no end (%s), but ends as if it were whole after %d octets", x.page.fault, got.octets)
	case got.complete && got.octets != x.page.length:
		return "", fmt.Errorf("the body has %d octets, but the origin's has %d", got.octets, x.page.length)
	case !got.complete && !w.killed && !w.isCutShort(x.page):
		return "", fmt.Errorf("the response is cut short after %d of %d octets: %w", got.octets, x.page.length, got.err)
	case !got.complete:
		return "passed: cut short", nil
	}
	return "passed: " + map[bool]string{true: "whole", false: string(x.page.fault)}[x.page.fault == faultless], nil
}

// judgeRefusal checks a response by which the proxy refuses.
func judgeRefusal(x exchange, got outcome, w witness) (name string, err error) {
	if x.arrivals > 0 {
		return "", fmt.Errorf("the request was refused, but has reached its origin")
	}
	if got.status != http.StatusForbidden {
		return "", fmt.Errorf("refused with status %d", got.status)
	}
	if x.method == http.MethodHead { // without a body, it says in words why
		if !w.disallows(x.agent, x.path) && !w.unreachable() {
			return "", fmt.Errorf("refused, though every robots.txt allowed it")
		}
		return "refused: HEAD", nil
	}
	var problem struct{ Reason, Rule string }
	if err := json.Unmarshal(got.text, &problem); err != nil {
		if w.killed {
			return "lost with the proxy", nil
		}
		return "", fmt.Errorf("reading the refusal %q: %w", got.text, err)
	}
	switch {
	case problem.Reason == "rule" && w.disallows(x.agent, x.path), problem.Reason == "unreachable" && w.unreachable():
		return "refused: " + problem.Reason, nil
	case problem.Reason == "rule":
		return "", fmt.Errorf("refused because of %q, though every robots.txt allowed it", problem.Rule)
	}
	return "", fmt.Errorf("refused because %s, with which the model does not agree", got.text)
}

// A checker knows every exchange in progress, and gathers what is wrong.
type checker struct {
	mu      sync.Mutex
	last    uint64 // exchange
	live    map[uint64]*exchange
	refused map[uint64]time.Time // when; so that one that reaches its origin later is noticed
	counts  map[string]int
	judged  int // exchanges
	broken  []string
	more    int // broken checks that are not in broken
}

func newChecker() *checker {
	return &checker{live: map[uint64]*exchange{}, refused: map[uint64]time.Time{}, counts: map[string]int{}}
}

// maxBroken bounds how many broken checks are told in full.
const maxBroken = 40

func (c *checker) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.broken) == maxBroken {
		c.more++
		return
	}
	c.broken = append(c.broken, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (c *checker) count(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what] += n
}

// status says in a few words how it goes.
func (c *checker) status() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d requests judged, %d broken", c.judged, len(c.broken)+c.more)
}

// begin registers an exchange, which it numbers.
func (c *checker) begin(x exchange) *exchange {
	x.page = x.origin.page(x.path)
	x.started = time.Now()
	if x.proxy != nil {
		x.life, x.place = x.proxy.currentLife(), x.proxy.currentPlace()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	x.id = c.last
	c.live[x.id] = &x
	return &x
}

// end judges what a client got.
func (c *checker) end(x *exchange, got outcome) {
	w := x.witness()
	c.mu.Lock()
	delete(c.live, x.id)
	c.judged++
	seen := *x
	if got.status == http.StatusForbidden && got.header.Get("Proxy-Status") != "" {
		c.refused[x.id] = time.Now()
	}
	c.mu.Unlock()
	name, err := judge(seen, got, w)
	if err != nil {
		c.fail("%s %s by %s as %s, %v after its start: %v", x.method, x.origin.url(x.path), x.door, x.agent, time.Since(x.started).Round(time.Millisecond), err)
		return
	}
	c.count(name, 1)
}

// abandon ends an exchange whose client has left, so that there is nothing to judge.
func (c *checker) abandon(x *exchange, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.live, x.id)
	c.counts["client: "+how]++
}

func (x *exchange) witness() witness {
	var w witness
	w.versions, w.moods = x.origin.past(x.started.Add(-rulesFor))
	if x.proxy != nil {
		life, place := x.proxy.currentLife(), x.proxy.currentPlace()
		w.replaced = place != x.place
		w.killed = isAway(x.life) || life-x.life != 2*(place-x.place)
	}
	return w
}

// reached checks that a request may come to its origin.
func (c *checker) reached(o *origin, r *http.Request) {
	now := time.Now()
	id, _ := strconv.ParseUint(r.Header.Get(idField), 10, 64)
	isRepeated := false
	c.mu.Lock()
	since := now.Add(-rulesFor - fetchTimeout) // of those whose beginning is not known
	if x := c.live[id]; x != nil {
		x.arrivals++
		since = x.started.Add(-rulesFor)
		isRepeated = r.Method == http.MethodPost && x.arrivals > 1
	}
	refusedAt, wasRefused := c.refused[id]
	maps.DeleteFunc(c.refused, func(_ uint64, at time.Time) bool { return now.Sub(at) > time.Minute })
	c.counts["requests that reached an origin"]++
	c.mu.Unlock()
	if wasRefused {
		c.fail("%s %s reached its origin %v after it was refused", r.Method, o.url(r.URL.Path), now.Sub(refusedAt))
	}
	if isRepeated { // RFC 9110 9.2.2
		c.fail("POST %s reached its origin more than once", o.url(r.URL.Path))
	}
	versions, moods := o.past(since)
	if err := judgeArrival(r.UserAgent(), r.URL.Path, witness{versions: versions, moods: moods}); err != nil {
		c.fail("%s %s as %q: %v", r.Method, o.url(r.URL.Path), r.UserAgent(), err)
	}
}

// judgeArrival checks that a request may come to its origin.
func judgeArrival(agent, path string, w witness) error {
	if !isPage(path) {
		return fmt.Errorf("an origin was asked for what no client asked for")
	}
	if !w.allows(agent, path) {
		return fmt.Errorf("the request reached its origin, though no robots.txt allowed it")
	}
	return nil
}

// uploaded checks what has come to an origin of a request's body. err is how it ended.
func (c *checker) uploaded(o *origin, r *http.Request, p page, got *comparison, err error) {
	if err := judgeUpload(p, got.octets, got.differs, err); err != nil {
		c.fail("POST %s: %v", o.url(r.URL.Path), err)
	}
}

// judgeUpload checks what has come of a request's body to its origin, where it ended with readErr.
func judgeUpload(p page, octets int, differs bool, readErr error) error {
	switch {
	case differs:
		return fmt.Errorf("the body that reached the origin is not the client's: it differs within %d octets", octets)
	case readErr == nil && octets != p.upload:
		return fmt.Errorf("the body reached the origin as a whole one of %d octets, but the client's has %d", octets, p.upload)
	}
	return nil
}
