package ledger

import (
	"strings"
	"testing"
	"unsafe"

	"robotsproxy/proxy/decision"
)

func TestLongTextsAreCut(t *testing.T) {
	l := New()
	long := strings.Repeat("é", 64<<10)
	l.Enter(decision.Decision{Method: long, Agent: long, URL: long, Rule: long, Error: long})
	d := l.last[1]
	for _, text := range []string{d.Method, d.Agent, d.URL, d.Rule, d.Error} {
		if len(text) > maxTextLength+len("…") || !strings.HasSuffix(text, "é…") {
			t.Errorf("%d octets: …%s", len(text), text[len(text)-10:])
		}
	}

	// A part of a longer text must not keep all of it: here, of a request line with long
	// credentials.
	line := "GET http://" + long + "@a.example/"
	l.Enter(decision.Decision{Method: line[:3], URL: "http://a.example/"})
	if method := l.last[2].Method; method != "GET" || unsafe.StringData(method) == unsafe.StringData(line) {
		t.Errorf("the method %q keeps the whole line", method)
	}
}

func TestHits(t *testing.T) {
	h := newHits()
	add := func(line int, change ...func(*decision.Decision)) {
		d := decision.Decision{Origin: "https://a.example", RobotsSHA256: "1", Line: line, Reason: decision.ByRule}
		for _, f := range change {
			f(&d)
		}
		h.add(&d)
	}
	at := func(n int) Line { return Line{"https://a.example", "1", n} }
	add(1)
	add(1, func(d *decision.Decision) { d.Reason = decision.NoRule }) // by an empty rule
	for _, other := range []func(*decision.Decision){
		func(d *decision.Decision) { d.Origin = "https://b.example" },
		func(d *decision.Decision) { d.RobotsSHA256 = "2" },             // the site has changed it
		func(d *decision.Decision) { d.RobotsSHA256 = "" },              // an operator's file
		func(d *decision.Decision) { d.Reason = decision.OpaqueTunnel }, // a tunnel is no path
		func(d *decision.Decision) { d.Line = 0 },
	} {
		add(1, other)
	}
	if got := h.of(at(1)); got != 2 {
		t.Errorf("%d hits", got)
	}
	for i := range maxCountedLines {
		add(i + 2)
		if i%1000 == 0 {
			add(1) // it goes on deciding
		}
	}
	if n := h.counts.Len(); n != maxCountedLines || h.of(at(1)) < 2 || h.of(at(2)) != 0 {
		t.Errorf("%d lines are counted; the one in use has decided %d times, the oldest %d times", n, h.of(at(1)), h.of(at(2)))
	}
}
