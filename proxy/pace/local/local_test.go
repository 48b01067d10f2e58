package local

import (
	"strconv"
	"testing"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// The memory for counts is bounded, and empty when all of them are over.
func TestStartsAreBounded(t *testing.T) {
	var s Starts
	now := time.Unix(1_000_000_000, 0)
	key := fleet.Site{Origin: "https://example.com"}
	for range 30 {
		if _, ok := s.Count(key, now, 100); !ok {
			t.Fatal("a site is over its limit")
		}
		for i := range uint64(maxStarts / 20) {
			s.add(i, now.Unix()/secondsPerHour)
		}
		now = now.Add(time.Hour)
		if s.size > maxStarts {
			t.Fatalf("%d counts", s.size)
		}
	}
	if s.size < maxStarts-maxStarts/20 {
		t.Errorf("%d counts, want about %d", s.size, maxStarts)
	}
	if _, ok := s.Count(key, now.Add(-time.Hour), 15); ok {
		t.Error("the counts that there is room for are not kept")
	}
	s.Count(fleet.Site{}, now.Add(100*time.Hour), 1)
	if s.size != 1 {
		t.Errorf("%d counts after a long time", s.size)
	}
}

// The memory for failures is bounded. The site that goes is the one that has failed longest ago.
func TestFailuresAreBounded(t *testing.T) {
	var forgotten []string
	f := NewFailures(func(site fleet.Site) { forgotten = append(forgotten, site.Origin) })
	now, rules := time.Unix(0, 0), fleet.Rules{After: 2, First: time.Minute, Max: time.Hour}
	for i := range maxRows + 2 {
		f.Failed(fleet.Site{Origin: strconv.Itoa(i)}, 0, now, rules)
		f.Failed(fleet.Site{Origin: "0"}, 0, now, rules)
	}
	if f.known.Len() != maxRows || len(forgotten) != 2 || forgotten[0] != "1" || forgotten[1] != "2" {
		t.Errorf("%d rows are known, and those of %v forgotten", f.known.Len(), forgotten)
	}
	f.Clear()
	if f.known.Len() != 0 || len(forgotten) != 2 {
		t.Errorf("cleared, %d rows are known, and those of %v forgotten", f.known.Len(), forgotten)
	}
}

// The outcome of a request that started in another epoch changes nothing, and a row that ends
// begins a new one if it has begun a pause.
func TestEpochs(t *testing.T) {
	f := NewFailures(nil)
	site, now, rules := fleet.Site{Origin: "https://a.example"}, time.Unix(0, 0), fleet.Rules{After: 2, First: time.Minute, Max: time.Hour}
	if _, begins := f.Failed(site, 0, now, rules); begins || !f.Ends(site, 0, now) {
		t.Error("the first failure begins a pause")
	}
	if next := f.Succeeded(site, 0, now, rules); next != 0 || f.Ends(site, 0, now) {
		t.Errorf("after a row without a pause the epoch is %d", next)
	}
	f.Failed(site, 0, now, rules)
	if pause, begins := f.Failed(site, 0, now, rules); !begins || pause < 30*time.Second || pause > time.Minute {
		t.Errorf("the second failure: %v, %t", pause, begins)
	}
	if _, begins := f.Failed(site, 0, now, rules); begins || f.Ends(site, 0, now) || f.Succeeded(site, 0, now, rules) != 0 {
		t.Error("an outcome of the epoch before counts")
	}
	if epoch, probe := f.Start(site, now, rules); epoch != 1 || !probe {
		t.Errorf("after the pause starts a request in epoch %d, as a probe: %t", epoch, probe)
	}
	if next := f.Succeeded(site, 1, now, rules); next != 2 {
		t.Errorf("after the probe the epoch is %d", next)
	}
	if epoch, probe := f.Start(site, now.Add(rules.Max), rules); epoch != 0 || probe {
		t.Errorf("an hour later starts a request in epoch %d, as a probe: %t", epoch, probe)
	}
}
