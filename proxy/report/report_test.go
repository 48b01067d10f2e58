package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/report"
	"robotsproxy/robots/store/counts"
)

// jan is a day of January 2026.
func jan(day int) counts.Day {
	return counts.DayOf(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC))
}

// someWeeks has a little of all that there may be in a report.
func someWeeks(scope report.Scope) *report.Report {
	b := report.New(scope)
	row := func(day int, requests int64, d counts.Decision, waited time.Duration) {
		n := counts.Count{Requests: requests, Waited: waited}
		if waited > 0 {
			n.Paced = requests
		}
		b.Add(counts.Row{Day: jan(day), Decision: d, Count: n})
		b.Ran(jan(day))
	}
	for _, day := range []int{1, 2, 5, 6, 7, 9} {
		row(day, int64(1000*day), counts.Decision{Identity: "default", Origin: "https://example.com", Outcome: counts.Passed, Verdict: "allowed", Reason: "no_rule"}, time.Duration(day)*time.Hour)
	}
	row(9, 120, counts.Decision{Identity: "default", Origin: "https://example.com", Outcome: counts.Refused, Verdict: "disallowed", Reason: "rule", Rule: "Disallow: /private/"}, 0)
	row(9, 8, counts.Decision{Identity: "newcomer", Origin: "https://example.com", Outcome: counts.WouldRefuse, Verdict: "disallowed", Reason: "rule", Rule: "Disallow: /private/"}, 0)
	row(9, 7, counts.Decision{Identity: "newcomer", Origin: "https://press.example", Outcome: counts.WouldRefuse, Verdict: "allowed", Reason: "no_rule", Preference: "content-signal: ai-train=no"}, 0)
	row(9, 6, counts.Decision{Identity: "default", Origin: "https://slow.example", Outcome: counts.Late, Verdict: "allowed", Reason: "no_group"}, 0)
	row(7, 5, counts.Decision{Identity: "default", Origin: "https://down.example", Outcome: counts.Refused, Verdict: "disallowed", Reason: "unreachable", Cause: "timed out"}, 0)
	row(9, 5, counts.Decision{Identity: "default", Origin: "https://down.example", Outcome: counts.Refused, Verdict: "disallowed", Reason: "unreachable", Cause: "503 Service Unavailable"}, 0)
	row(9, 4, counts.Decision{Identity: "default", Origin: "https://partner.example", Outcome: counts.Passed, Verdict: "allowed", Reason: "override", OverrideReason: "they gave us leave, 2025-11-02"}, 0)
	row(9, 3, counts.Decision{Identity: "default", Outcome: counts.Refused, Verdict: "disallowed", Reason: "rule"}, 0)
	row(9, 2, counts.Decision{Identity: "default", Origin: "https://<script>alert(1)</script>.example", Outcome: counts.Refused, Verdict: "disallowed", Reason: "rule", Rule: "Disallow: /\x1b[31m\u202e\"'><script>alert(2)</script>{{.}}"}, 0)
	for i, o := range []string{"https://example.com", "https://press.example"} {
		edge := counts.Count{Requests: 20, TurnedAway: int64(12 + 5*i), Challenged: 3, Priced: int64(-8 * (i - 1))}
		b.Add(counts.Row{Day: jan(9), Decision: counts.Decision{Identity: "default", Origin: o, Outcome: counts.Passed, Verdict: "allowed", Reason: "no_rule"}, Count: edge})
	}
	for _, hour := range []int{1, 30} {
		b.AddChange(report.Change{Origin: "https://example.com", Time: jan(5).Start().Add(time.Duration(hour) * time.Hour), Status: 200, SHA256: strings.Repeat("ab", 32)})
	}
	b.AddChange(report.Change{Origin: "https://press.example", Time: jan(6).Start(), Status: 404})
	b.AddChange(report.Change{Origin: "https://press.example", Time: jan(20).Start(), Status: 404}) // later
	return b.Report()
}

var weeks = counts.Period{From: jan(1), Until: jan(10)}

// golden compares with a file in testdata. With the variable UPDATE, it writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestText(t *testing.T) {
	for name, scope := range map[string]report.Scope{
		"weeks.txt":    {Period: weeks},
		"origin.txt":   {Period: weeks, Origin: "https://example.com"},
		"identity.txt": {Period: weeks, Identity: "newcomer"},
		"nothing.txt":  {Period: counts.Period{From: jan(3), Until: jan(4)}},
	} {
		var b bytes.Buffer
		if err := someWeeks(scope).Text(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}

func TestJSON(t *testing.T) {
	text, err := printable.Marshal(someWeeks(report.Scope{Period: weeks}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "weeks.json", text)
	empty, err := printable.Marshal(report.New(report.Scope{Period: counts.Period{From: 1, Until: 1}}).Report())
	if err != nil || bytes.Contains(empty, []byte("null")) {
		t.Errorf("without counts: %s, %v", empty, err)
	}
}

func TestDaysWithout(t *testing.T) {
	runs := someWeeks(report.Scope{Period: weeks}).DaysWithout()
	want := []counts.Period{{From: jan(3), Until: jan(4)}, {From: jan(8), Until: jan(8)}, {From: jan(10), Until: jan(10)}}
	if len(runs) != 3 || runs[0] != want[0] || runs[1] != want[1] || runs[2] != want[2] {
		t.Errorf("got %v, want %v", runs, want)
	}
}

// The page is one file, and nothing of what sites write becomes a part of it.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := someWeeks(report.Scope{Period: weeks}).HTML(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "weeks.html", b.Bytes())
	for _, never := range []string{"<script", "\x1b", "\u202e", "src=", "href=", "url(", "@import", "http-equiv=\"refresh", "ZgotmplZ"} {
		if strings.Contains(b.String(), never) {
			t.Errorf("the page has %q", never)
		}
	}
	root := html.NewTokenizer(&b)
	elements := map[string]int{}
	for root.Next() != html.ErrorToken {
		if token := root.Token(); token.Type == html.StartTagToken || token.Type == html.SelfClosingTagToken {
			elements[token.Data]++
		}
	}
	if elements["g"] != 10 || elements["section"] != 8 || elements["script"] != 0 || elements["table"] != 8 {
		t.Errorf("it has %v", elements)
	}
}
