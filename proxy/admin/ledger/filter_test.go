package ledger

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"robotsproxy/proxy/decision"
)

func TestFilter(t *testing.T) {
	decisions := map[string]decision.Decision{
		"passed":   {Origin: "https://xn--bcher-kva.example:8443", Agent: "ExampleBot", Identity: "images", Judgment: decision.Allowed, Reason: decision.NoRule, WaitMS: 1500},
		"failed":   {Origin: "http://down.example", Agent: "ExampleBot", Identity: "default", Judgment: decision.Allowed, Reason: decision.NoGroup, Error: "connection refused"},
		"refused":  {Origin: "https://shop.example", Agent: "curl", Identity: "default", Judgment: decision.Disallowed, Reason: decision.ByRule, Refused: true},
		"reported": {Origin: "https://shop.example", Agent: "Scrapy", Identity: "images", Judgment: decision.Disallowed, Reason: decision.ByRule, WouldRefuse: true, Client: netip.MustParseAddr("fe80::1%eth0")},
		"asked":    {Origin: "https://shop.example", Agent: "Scrapy", Identity: "images", Judgment: decision.Allowed, Reason: decision.ByRule, WouldRefuse: true},
		"late":     {Origin: "https://slow.example", Agent: "curl", Identity: "default", Judgment: decision.Allowed, Reason: decision.NoRule, Refused: true, Status: 429, Error: "its turn"},
	}
	for name, d := range decisions {
		if !d.Client.IsValid() {
			d.Client = netip.MustParseAddr("::ffff:10.1.2.3")
			decisions[name] = d
		}
	}
	for _, test := range []struct{ query, want string }{
		{"", "asked failed late passed refused reported"},
		{"other=1", "asked failed late passed refused reported"},
		{"identity=images", "asked passed reported"},
		{"identity=image", ""},
		{"verdict=disallowed", "refused reported"},
		{"outcome=passed", "failed passed"},
		{"outcome=refused", "refused"},
		{"outcome=would_refuse", "asked reported"},
		{"outcome=late", "late"},
		{"outcome=failed", "failed"},
		{"reason=rule", "asked refused reported"},
		{"reason=rule&agent=scrapy&verdict=disallowed", "reported"},
		{"agent=BOT", "failed passed"},
		{"host=SHOP.", "asked refused reported"},
		{"host=b%C3%BCcher", "passed"},
		{"host=B%C3%9CCHER.example:8443", "passed"},
		{"host=xn--bcher", "passed"},
		{"host=http://", "failed"},
		{"host=http", ""},
		{"client=10.1.2.3", "asked failed late passed refused"},
		{"client=10.1.0.0/16&outcome=late", "late"},
		{"client=10.1.2.9/16&outcome=late", "late"},
		{"client=fe80::1", "reported"},
		{"client=::ffff:10.1.2.3&outcome=late", "late"},
		{"client=10.2.0.0/16", ""},
		{"min_wait=1s", "passed"},
		{"min_wait=1500ms", "passed"},
		{"min_wait=2s", ""},
	} {
		query, _ := url.ParseQuery(test.query)
		f, err := ParseFilter(query)
		if err != nil {
			t.Errorf("%s: %v", test.query, err)
			continue
		}
		var got []string
		for _, name := range []string{"asked", "failed", "late", "passed", "refused", "reported"} {
			if d := decisions[name]; f.Selects(&d) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s selects %q, want %q", test.query, got, test.want)
		}
	}
	for query, want := range map[string]string{
		"verdict=maybe":    `verdict: "maybe" is none; write allowed or disallowed`,
		"outcome=allowed":  "write passed, would_refuse, refused, late or failed",
		"reason=because":   "reason: ",
		"client=localhost": "client: \"localhost\" is neither",
		"client=10.0.0.0/": "client: ",
		"min_wait=5":       "write 500ms or 2s",
		"min_wait=-1s":     "min_wait",
	} {
		values, _ := url.ParseQuery(query)
		if _, err := ParseFilter(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// A flood of requests that pass does not push out those that were stopped, and all that is kept
// is found in its order.
func TestKept(t *testing.T) {
	l := New()
	enter := func(n int, name string, change func(*decision.Decision)) {
		for i := range n {
			d := decision.Decision{URL: fmt.Sprintf("%s %d", name, i), Judgment: decision.Allowed}
			if change != nil {
				change(&d)
			}
			l.Enter(d)
		}
	}
	refused := func(d *decision.Decision) { d.Judgment, d.Refused = decision.Disallowed, true }
	found := func(query string, limit int) (urls []string) {
		values, _ := url.ParseQuery(query)
		f, _ := ParseFilter(values)
		kept, newest := l.Kept(f, limit)
		if newest != l.Newest() {
			t.Errorf("the newest is %d, want %d", newest, l.Newest())
		}
		for _, d := range kept {
			urls = append(urls, d.URL)
		}
		return urls
	}
	if got := found("", MaxKept); len(got) != 0 {
		t.Errorf("an empty ledger has %q", got)
	}
	enter(3, "first", refused)
	enter(1, "report", func(d *decision.Decision) { d.Judgment, d.WouldRefuse = decision.Disallowed, true })
	enter(1, "late", func(d *decision.Decision) { d.Refused = true })
	enter(5*Size, "flood", nil)
	enter(1, "last", refused)
	if got := found("verdict=disallowed", MaxKept); strings.Join(got, ", ") != "last 0, report 0, first 2, first 1, first 0" {
		t.Errorf("disallowed: %q", got)
	}
	if got := found("", MaxKept); len(got) != Size+5 || got[0] != "last 0" || got[Size-1] != "flood 4001" || got[Size] != "late 0" {
		t.Errorf("%d are kept: %q", len(got), got)
	}
	if got := found("", 2); strings.Join(got, ", ") != "last 0, flood 4999" {
		t.Errorf("the first two: %q", got)
	}
	enter(3*Size, "many", refused)
	if got := found("", MaxKept); len(got) != MaxKept || got[0] != "many 2999" || got[MaxKept-1] != "many 1000" {
		t.Errorf("%d are kept, from %s to %s", len(got), got[0], got[len(got)-1])
	}
}
