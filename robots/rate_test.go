package robots

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRequestRate(t *testing.T) {
	const none = -1
	for value, want := range map[string]time.Duration{
		"1/10s": 10 * time.Second, "1/10": 10 * time.Second, "30/1m": 2 * time.Second, "1/1h": time.Hour, "1/10S": 10 * time.Second, "2/1M": 30 * time.Second,
		" 1 / 10 s # slowly": 10 * time.Second, "1/1.5s": 1500 * time.Millisecond, "0.5/1s": 2 * time.Second, "1/010s": 10 * time.Second,
		"1/10s 0000-2400": 10 * time.Second, "1/10s 00:00 - 23:59": 10 * time.Second, "1/10 0000-2359": 10 * time.Second, "1/10s0000-2359": 10 * time.Second,
		"1/99999999999999999999h": (1 << 30) * time.Second, "1/" + strings.Repeat("9", 400): (1 << 30) * time.Second,
		"." + strings.Repeat("0", 300) + "1/1s": (1 << 30) * time.Second, strings.Repeat("9", 400) + "/" + strings.Repeat("9", 400): time.Second,
		strings.Repeat("9", 400) + "/1s": 0,

		"": none, "/": none, "1": none, "1/": none, "/1": none, "0/1s": none, "1/0s": none, "0/0": none, "-1/10s": none, "1/-10s": none, "+1/1": none, "1e3/1": none, "NaN/1": none,
		"1/inf": none, "." + strings.Repeat("0", 400) + "1/1s": none, "1/10x": none, "1/10sec": none, "1/10s 9-17": none, "1/10s 0900": none, "1/10s 0900-": none, "1/10s -1700": none,
		"1/10s 2401-2400": none, "1/10s 0960-1000": none, "1/10s 2500-0100": none, "1/10s 0900-1700 x": none, "1/10s +900-1700": none, "1/10s 0900-1700-1800": none, "1/2/3": none,
	} {
		group, _ := Parse([]byte("User-agent: *\nRequest-rate: " + value)).Group(nil)
		got, ok := group.Delay(12 * time.Hour)
		if ok != (want != none) || ok && got != want {
			t.Errorf("%.60q: %v, %v; want %v", value, got, ok, want)
		}
		if group.StatesDelay() != ok {
			t.Errorf("%.60q: states a delay: %v", value, !ok)
		}
	}
}

func TestRequestRateByTheHour(t *testing.T) {
	const day = "Request-rate: 1/10s 1300-1659\nrequestrate: 1/20s 1700-0459\nRequest rate: 5/1m 0500-1259\n"
	for rules, want := range map[string]map[string]time.Duration{ // seconds by time; -1: none
		day:                           {"00:00": 20, "04:59": 20, "05:00": 12, "12:59": 12, "13:00": 10, "16:59": 10, "17:00": 20, "23:59": 20},
		"Request-rate: 1/3 0900-1700": {"08:59": -1, "09:00": 3, "17:00": 3, "17:01": -1},
		"Request-rate: 1/3 2200-0600": {"21:59": -1, "22:00": 3, "00:00": 3, "06:00": 3, "06:01": -1},
		"Request-rate: 1/3 1200-1200": {"11:59": -1, "12:00": 3, "12:01": -1},
		"Request-rate: 1/3\n" + day:   {"00:00": 3, "14:00": 3}, // the first counts
		day + "Crawl-delay: 1":        {"00:00": 1, "14:00": 1}, // before all rates
		day + "Crawl-delay: soon":     {"00:00": 20},            // no number states nothing
		day + "Request-rate: 1/1":     {"14:00": 10},            // no time is left to it
		"Request-rate: x\n" + day:     {"14:00": 10},            // nor does this
		"Disallow: /\n" + day:         {"14:00": 10},            // wherever it stands
		"Request-rate: 1/3 0900-1700\n" + "User-agent: *\nDisallow: /\n" + day: {"10:00": 3, "18:00": 20}, // sections of one group
	} {
		group, _ := Parse([]byte("User-agent: *\n" + rules)).Group(nil)
		for clock, seconds := range want {
			at, err := time.Parse("15:04", clock)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := group.Delay(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + 59*time.Second)
			if ok != (seconds >= 0) || ok && got != seconds*time.Second {
				t.Errorf("%q at %s: %v, %v; want %d s", rules, clock, got, ok, seconds)
			}
		}
	}
	if file := Parse([]byte("Request-rate: 1/3\nUser-agent: a\nDisallow: /")); file.StatesDelay() {
		t.Error("a rate before any group counts")
	}
}

func TestDelaysBelongToTheLinesAbove(t *testing.T) {
	for body, want := range map[string]string{ // delays of a, b and *, in seconds; -: none
		"User-agent: a\nCrawl-delay: 10\nUser-agent: *\nDisallow: /x":                                           "10 - -",
		"User-agent: a\nUser-agent: b\nCrawl-delay: 10\nUser-agent: *\nDisallow: /x":                            "10 10 -",
		"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nCrawl-delay: 2\nUser-agent: *\nCrawl-delay: 3":           "1 2 3",
		"User-agent: a\nCrawl-delay: 1\nUser-agent: b\nDisallow: /x\nCrawl-delay: 2":                            "1 2 -", // a has one already
		"User-agent: a\nUser-agent: b\nDisallow: /x\nCrawl-delay: 2":                                            "2 2 -",
		"User-agent: a\nSitemap: s\n\nhello\nCrawl-delay: 1\nUser-agent: b":                                     "1 - -", // other lines stand between
		"User-agent: a\nCrawl-delay: 1\nRequest-rate: 1/2\nUser-agent: b\nDisallow: /":                          "1 - -",
		"User-agent: a\nRequest-rate: 1/2\nUser-agent: b\nDisallow: /\nRequest-rate: 1/4":                       "2 4 -",
		"User-agent: a\nCrawl-delay: soon\nUser-agent: b\nCrawl-delay: 2\nDisallow: /":                          "- 2 -",
		"User-agent: a\nCrawl-delay: 1\nUser-agent: a\nUser-agent: b\nCrawl-delay: 2\nDisallow: /":              "1 2 -",
		"User-agent: a\nDisallow: /\nUser-agent: b\nCrawl-delay: 2\nUser-agent: a\nDisallow: /\nCrawl-delay: 3": "3 2 -", // a is named twice
		"Crawl-delay: 1\nUser-agent: a\nDisallow: /\nUser-agent: *\nDisallow:":                                  "- - -",
	} {
		file := Parse([]byte(body))
		var got []string
		for _, name := range []string{"a", "b", "*"} {
			seconds := "-"
			if group := file.named(name); group != nil && group.StatesDelay() {
				delay, _ := group.Delay(0)
				seconds = fmt.Sprint(delay.Seconds())
			}
			got = append(got, seconds)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
}

// Thousands of bots that share thousands of rates take no more memory than their lines.
func TestManyRequestRates(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "User-agent: a%d\nUser-agent: b%d\nRequest-rate: 1/%d 0000-0001\nRequest-rate: 1/1 0002-0003\nDisallow: /\n", i%50, i%2500, i+1)
	}
	file := Parse([]byte(b.String()))
	for _, group := range file.groups {
		if len(group.pace.rates) > maxRates {
			t.Errorf("%s has %d rates", group.name, len(group.pace.rates))
		}
	}
	if limit := int64(40 * b.Len()); file.Size() > limit {
		t.Errorf("a text of %d octets takes %d", b.Len(), file.Size())
	}
	group, _ := file.Group([]string{"a7"})
	if got, ok := group.Delay(0); !ok || got != 8*time.Second {
		t.Errorf("%v, %v; want that of the first section", got, ok)
	}
}

// FuzzRequestRate checks that every valid rate holds at some time, with a delay within bounds.
func FuzzRequestRate(f *testing.F) {
	for _, seed := range []string{"1/10s", "30/1m 0900-1659", "1 / 1 h 22:00 - 06:00", "0/0", "./.", "99999999999999999999999/.0001 2400-2400"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r, ok := parseRate(value)
		if !ok {
			return
		}
		if r.delay < 0 || r.delay > (1<<30)*time.Second {
			t.Errorf("%q: a delay of %v", value, r.delay)
		}
		for minute := range time.Duration(minutesPerDay) {
			if r.holds(minute * time.Minute) {
				return
			}
		}
		t.Errorf("%q: %+v never holds", value, r)
	})
}
