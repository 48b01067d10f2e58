package summary

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/sealed"
)

const shop = "https://shop.example.com"

// Each decision counts in the totals, under its cause if there is one, and in the text.
func TestDecisions(t *testing.T) {
	for _, test := range []struct {
		name     string
		decision decision.Decision
		want     Requests // but for Total
		line     string   // the first of the text, after the number of requests
		cause    string   // the line of the cause
	}{
		{"allowed", decision.Decision{Judgment: decision.Allowed, Reason: decision.ByRule, Rule: "Allow: /", Line: 2}, Requests{}, "0 refused", ""},
		{"allowed and broken off", decision.Decision{Judgment: decision.Allowed, Error: "connection reset"}, Requests{BrokenOff: 1}, "0 refused, 1 broken off or not answered", ""},
		{"paced", decision.Decision{Judgment: decision.Allowed, PacedMS: 61_400, PacedBy: "crawl_delay"}, Requests{Paced: 1, PacedMS: 61_400}, "0 refused, 1 paced (1m1s in all)", ""},
		{"paced for an instant", decision.Decision{Judgment: decision.Allowed, PacedMS: 3, PacedBy: "crawl_delay"}, Requests{Paced: 1, PacedMS: 3}, "0 refused", ""},
		{
			"refused by a rule", decision.Decision{Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /a", Line: 3, Refused: true},
			Requests{Refused: 1, Causes: []Cause{{about{shop, true, decision.ByRule, "Disallow: /a", 3, "Disallow: /a (line 3)"}, 1}}},
			"1 refused", "1 refused  " + shop + "  Disallow: /a (line 3)",
		},
		{
			"refused and broken off", decision.Decision{Judgment: decision.Disallowed, Reason: decision.Unreachable, Cause: "timeout", Refused: true, Error: "the client has left"},
			Requests{Refused: 1, Causes: []Cause{{about{shop, true, decision.Unreachable, "", 0, "its robots.txt cannot be had (timeout)"}, 1}}},
			"1 refused", "1 refused  " + shop + "  its robots.txt cannot be had (timeout)",
		},
		{
			"its turn too late", decision.Decision{Judgment: decision.Allowed, Reason: decision.ByRule, Rule: "Allow: /a", Line: 3, Refused: true, Error: "late"},
			Requests{Refused: 1, RefusedLate: 1, Causes: []Cause{{about{shop, true, late, "", 0, "its turn would have come after pace.max_wait"}, 1}}},
			"1 refused", "1 refused  " + shop + "  its turn would have come after pace.max_wait",
		},
		{
			"mode report", decision.Decision{Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /a", Line: 3, WouldRefuse: true},
			Requests{WouldRefuse: 1, Causes: []Cause{{about{shop, false, decision.ByRule, "Disallow: /a", 3, "Disallow: /a (line 3)"}, 1}}},
			"0 refused, 1 let through that robots.txt disallows (mode report)", "1 reported  " + shop + "  Disallow: /a (line 3)",
		},
		{
			"refused by a preference", decision.Decision{Judgment: decision.Disallowed, Reason: decision.ByPreference, Rule: "content-signal: ai-train=no", Line: 4, Preference: "content-signal: ai-train=no", PreferenceLine: 4, Refused: true},
			Requests{Refused: 1, RefusedByPreference: 1, Causes: []Cause{{about{shop, true, decision.ByPreference, "content-signal: ai-train=no", 4, "content-signal: ai-train=no (line 4)"}, 1}}},
			"1 refused", "1 refused  " + shop + "  content-signal: ai-train=no (line 4)",
		},
		{
			"refused by a response", decision.Decision{Judgment: decision.Disallowed, Reason: decision.ByPreference, Preference: "x-robots-tag: noai", Refused: true},
			Requests{Refused: 1, RefusedByPreference: 1, Causes: []Cause{{about{shop, true, decision.ByPreference, "x-robots-tag: noai", 0, "x-robots-tag: noai"}, 1}}},
			"1 refused", "1 refused  " + shop + "  x-robots-tag: noai",
		},
		{
			"preferences.mode report", decision.Decision{Judgment: decision.Allowed, Reason: decision.ByRule, Rule: "Allow: /", Line: 2, Preference: "content-usage: train-ai=n", PreferenceLine: 5, WouldRefuse: true, Error: "connection reset"},
			Requests{WouldRefuse: 1, WouldRefuseByPreference: 1, BrokenOff: 1, Causes: []Cause{{about{shop, false, decision.ByPreference, "content-usage: train-ai=n", 5, "content-usage: train-ai=n (line 5)"}, 1}}},
			"0 refused, 1 let through whose use the site refuses (mode report), 1 broken off or not answered", "1 reported  " + shop + "  content-usage: train-ai=n (line 5)",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c Counter
			test.decision.Origin = shop
			c.Add(test.decision)
			s := New(time.Now())
			s.Requests = c.Requests()
			test.want.Total = 1
			if test.want.Causes == nil {
				test.want.Causes = []Cause{}
			}
			test.want.Failures, test.want.Delays = []Failure{}, []Delay{}
			if test.want.BrokenOff > 0 {
				test.want.Failures = []Failure{{shop, test.decision.Error, 1}}
			}
			if test.want.Paced > 0 {
				test.want.Delays = []Delay{{shop, pace.ByCrawlDelay, 1, test.want.PacedMS}}
			}
			if !reflect.DeepEqual(s.Requests, test.want) {
				t.Errorf("got  %+v,\nwant %+v", s.Requests, test.want)
			}
			want := ""
			if test.cause != "" {
				want = "robotsproxy:       " + test.cause + "\n"
			}
			if test.want.BrokenOff > 0 {
				want += "robotsproxy:       1 failed   " + shop + "  connection reset\n"
			}
			if test.want.PacedMS > 1000 {
				want += "robotsproxy:       1 paced    " + shop + "  waited 1m1s in all: the Crawl-delay of its robots.txt\n"
			}
			want += "robotsproxy: 1 request, " + test.line + "\n"
			if got := text(s); got != want {
				t.Errorf("got the text\n%swant\n%s", got, want)
			}
		})
	}
}

// Sites that fail and sites that have delays are counted for themselves, whatever their number.
func TestFailuresAndDelaysAreBounded(t *testing.T) {
	var c Counter
	for i := range maxCauses + 10 {
		for range 1 + i%2 {
			c.Add(decision.Decision{Origin: fmt.Sprintf("https://%d.example", i), Judgment: decision.Allowed, PacedMS: 2000, PacedBy: "delay", Error: strings.Repeat("é", maxText)})
		}
	}
	s := New(time.Now())
	s.Requests = c.Requests()
	if len(s.Failures) != maxCauses || len(s.Delays) != maxCauses || s.Failures[0].Requests != 2 || s.Delays[0].PacedMS != 4000 {
		t.Errorf("%d failures, %d delays; the first are %+v, %+v", len(s.Failures), len(s.Delays), s.Failures[0], s.Delays[0])
	}
	got := text(s)
	if strings.Count(got, " failed   ") != maxSites || strings.Count(got, ": the configuration's delay between two requests (pace)\n") != maxSites {
		t.Errorf("the text is\n%s", got)
	}
}

// What browsers ask for by themselves stands apart from what the command was run for.
func TestBrowsersThatCallHome(t *testing.T) {
	var c Counter
	for _, origin := range []string{"https://update.googleapis.com", "https://aus5.mozilla.org:8443", "https://normandy.cdn.mozilla.net", "https://update.googleapis.com.example", shop} {
		c.Add(decision.Decision{Origin: origin, Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: "Disallow: /", Line: 2, Refused: true})
	}
	s := New(time.Now())
	s.Requests = c.Requests()
	want := "robotsproxy:       1 refused  " + shop + "  Disallow: / (line 2)\n" +
		"robotsproxy:       1 refused  https://update.googleapis.com.example  Disallow: / (line 2)\n" +
		"robotsproxy:       3 refused that the browser sent by itself, to aus5.mozilla.org normandy.cdn.mozilla.net update.googleapis.com\n" +
		"robotsproxy: 5 requests, 5 refused\n"
	if got := text(s); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// One line says why nothing was asked for.
func TestNothingWasAskedFor(t *testing.T) {
	const advice = "the command sent no request"
	for want, change := range map[string]func(*Summary){
		"sent no request through the proxy": func(*Summary) {},
		"sent no request; a sealed command": func(s *Summary) { s.Sealed = &sealed.Report{} },
		"not judged, because of no_proxy":   func(s *Summary) { s.NoProxy.Hosts = []string{"localhost"} },
		"does not seem to trust":            func(s *Summary) { s.Distrusted = []string{"example.com"} },
		"0 requests, 0 refused":             func(s *Summary) { s.Inner = true }, // the outer run says it
	} {
		s := New(time.Now())
		change(s)
		if got := text(s); !strings.Contains(got, want) || strings.Contains(got, advice) != strings.Contains(want, "sent no request") {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

func text(s *Summary) string {
	var b strings.Builder
	s.Print(&b)
	return b.String()
}

// However many causes a crawl meets, and however long their texts are, the summary is
// bounded, and says how many requests it does not list.
func TestCausesAreBounded(t *testing.T) {
	const more, writers = 500, 4
	var c Counter
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < maxCauses+more; i += writers {
				rule := fmt.Sprintf("Disallow: /%d%s", i, strings.Repeat("é", maxText))
				c.Add(decision.Decision{Origin: shop, Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: rule, Line: i, Refused: true})
			}
		})
	}
	all.Wait()
	s := New(time.Now())
	s.Requests = c.Requests()
	if len(s.Causes) != maxCauses || s.OtherCauses != more || s.Refused != maxCauses+more {
		t.Errorf("%d causes, %d requests beyond them, %d refused", len(s.Causes), s.OtherCauses, s.Refused)
	}
	for _, cause := range s.Causes {
		if len(cause.Rule) > maxText+len("…") || len(cause.Why) > maxText+len("…") {
			t.Fatalf("a cause is %+v", cause)
		}
	}
	got := text(s)
	if shown := strings.Count(got, " refused  "); shown != maxShownCauses {
		t.Errorf("%d causes have a line", shown)
	}
	if !strings.Contains(got, "robotsproxy:   10480 more, by more than 9980 other rules or sites; --log-file FILE has all\n") {
		t.Errorf("the text does not tell of the others; its end is %q", got[len(got)-200:])
	}
}

// The file has every text of a site as a JSON string that means the same, with nothing that
// commands a terminal. Octets that are no UTF-8 become U+FFFD.
func TestHostileTextsInTheFile(t *testing.T) {
	random := make([]byte, 40)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for _, rule := range []string{"\"}],\n\"requests\": 0, \"x", "\x1b[2J\u202e\u2028\\", "</script><!--", "\xff\xfe\xc3", string(random)} {
		var c Counter
		c.Add(decision.Decision{Origin: rule, Judgment: decision.Disallowed, Reason: decision.ByRule, Rule: rule, Line: 1, Refused: true})
		s := New(time.Now())
		s.Requests = c.Requests()
		s.Distrusted, s.NoProxy.Hosts = []string{rule}, []string{rule}
		s.Sealed = &sealed.Report{Refused: []sealed.Count{{Destination: rule, Connections: 1}}, Warnings: []string{rule}}
		s.End(time.Now(), 137, syscall.SIGKILL, fmt.Errorf("starting %s", rule))
		written := write(t, s)
		if strings.ContainsAny(strings.TrimSuffix(written, "\n"), "\n\x1b\u202e\u2028\u009b") {
			t.Errorf("not safe to show: %q", written)
		}
		var got struct {
			Error      string
			Causes     []struct{ Origin, Rule, Why string }
			Distrusted []string
			NoProxy    struct{ Hosts []string } `json:"no_proxy"`
			Sealed     struct {
				Refused  []struct{ Destination string }
				Warnings []string
			}
		}
		if err := json.Unmarshal([]byte(written), &got); err != nil {
			t.Fatalf("%v: %q", err, written)
		}
		want := strings.ToValidUTF8(rule, "\uFFFD")
		if want != rule {
			want = string([]rune(rule)) // each octet on its own
		}
		for what, text := range map[string]string{
			"origin": got.Causes[0].Origin, "rule": got.Causes[0].Rule, "why": strings.TrimSuffix(got.Causes[0].Why, " (line 1)"),
			"distrusted": got.Distrusted[0], "no_proxy": got.NoProxy.Hosts[0], "error": strings.TrimPrefix(got.Error, "starting "),
			"destination": got.Sealed.Refused[0].Destination, "warning": got.Sealed.Warnings[0],
		} {
			if text != want {
				t.Errorf("%s: got %q, want %q", what, text, want)
			}
		}
	}
}

// write writes the summary to a new file and returns what is in it.
func write(t *testing.T, s *Summary) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "summary.json")
	if err := s.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// A run that has done nothing has every member that is always there, and no list is null.
func TestEmptySummary(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("", 3600))
	s := New(start)
	s.End(start.Add(time.Second), 125, 0, nil)
	want := `{"started_at":"2026-01-02T02:04:05.006Z","ended_at":"2026-01-02T02:04:06.006Z","exit_code":125,` +
		`"requests":0,"refused":0,"refused_by_preference":0,"refused_late":0,"would_refuse":0,"would_refuse_by_preference":0,"broken_off":0,"paced":0,"paced_ms":0,` +
		`"causes":[],"other_causes":0,"failures":[],"delays":[],"distrusted":[],"no_proxy":{"hosts":[],"judged":false},"sealed":null}` + "\n"
	if got := write(t, s); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

// A file is replaced as a whole, and stays as it is if that fails. Nothing is left beside it.
func TestFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "summary.json")
	if err := os.WriteFile(path, []byte("what was there before"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := CheckFile(path); err != nil {
		t.Error(err)
	}
	if err := New(time.Now()).WriteFile(path); err != nil {
		t.Error(err)
	}
	old := make([]byte, 100)
	if n, _ := before.Read(old); string(old[:n]) != "what was there before" {
		t.Errorf("a reader of the old file finds %q", old[:n])
	}
	if written, _ := os.ReadFile(path); !json.Valid(written) {
		t.Errorf("the new file is %q", written)
	}
	taken := filepath.Join(folder, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := New(time.Now()).WriteFile(taken); err == nil || !strings.Contains(err.Error(), "writing the summary to "+taken+": ") {
		t.Errorf("over a folder: %v", err)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 2 {
		t.Errorf("the folder has %v", entries)
	}
}
