package summary

import (
	"cmp"
	"slices"
	"sync"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/pace"
)

// Bounds of the memory for each list: a crawl may meet any number of origins, with rules of
// any length.
const (
	maxCauses = 10_000 // failures and delays too
	maxText   = 300    // octets
)

// A Counter counts the decisions about the requests of one run. The zero value has counted
// none. It is safe for concurrent use.
type Counter struct {
	mu       sync.Mutex
	totals   Requests // without the lists
	causes   map[about]int
	failures map[string]*Failure // by origin
	delays   map[delayed]*Delay
}

// delayed tells delays apart.
type delayed struct{ origin, by string }

// Add counts one decision.
func (c *Counter) Add(d decision.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.totals
	t.Total++
	if d.PacedMS > 0 {
		t.Paced++
		t.PacedMS += d.PacedMS
		if delay := entry(&c.delays, delayed{d.Origin, d.PacedBy}, Delay{Origin: d.Origin, By: pace.Holder(d.PacedBy)}); delay != nil {
			delay.Requests++
			delay.PacedMS += d.PacedMS
		}
	}
	if d.Judgment == decision.Allowed && !d.Refused && d.Error != "" {
		t.BrokenOff++
		if failure := entry(&c.failures, d.Origin, Failure{Origin: d.Origin, Error: printable.Cut(d.Error, maxText)}); failure != nil {
			failure.Requests++
		}
	}
	if !d.Refused && !d.WouldRefuse {
		return
	}
	why := aboutOf(d)
	of, byPreference := &t.WouldRefuse, &t.WouldRefuseByPreference
	if d.Refused {
		of, byPreference = &t.Refused, &t.RefusedByPreference
	}
	*of++
	switch why.Reason {
	case decision.ByPreference:
		*byPreference++
	case late:
		t.RefusedLate++
	}
	c.addCause(why)
}

// entry returns the value under a key, which it makes of first if there is none; nil if there
// are too many.
func entry[K comparable, V any](of *map[K]*V, key K, first V) *V {
	if v := (*of)[key]; v != nil {
		return v
	}
	if len(*of) == maxCauses {
		return nil
	}
	if *of == nil {
		*of = map[K]*V{}
	}
	(*of)[key] = &first
	return &first
}

// addCause counts a request for its cause. The caller holds the lock.
func (c *Counter) addCause(why about) {
	if _, known := c.causes[why]; !known && len(c.causes) == maxCauses {
		c.totals.OtherCauses++
		return
	}
	if c.causes == nil {
		c.causes = map[about]int{}
	}
	c.causes[why]++
}

// aboutOf returns what refuses the request, or would. The reason and rule of an allowed one
// say why it is allowed, so they are not the cause.
func aboutOf(d decision.Decision) about {
	why := about{Origin: d.Origin, Refused: d.Refused, Reason: d.Reason, Rule: d.Rule, Line: d.Line}
	switch {
	case d.Judgment != decision.Allowed:
		if d.Reason == decision.ByPreference && d.Rule == "" {
			why.Rule = d.Preference
		}
	case d.Refused:
		why.Reason, why.Rule, why.Line = late, "", 0
	default:
		why.Reason, why.Rule, why.Line = decision.ByPreference, d.Preference, d.PreferenceLine
	}
	why.Rule, why.Why = printable.Cut(why.Rule, maxText), printable.Cut(d.Why(), maxText)
	return why
}

// Requests returns what has been counted so far.
func (c *Counter) Requests() Requests {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.totals
	all.Causes = make([]Cause, 0, len(c.causes))
	for why, n := range c.causes {
		all.Causes = append(all.Causes, Cause{why, n})
	}
	all.Failures, all.Delays = values(c.failures), values(c.delays)
	slices.SortFunc(all.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Origin, b.Origin))
	})
	slices.SortFunc(all.Delays, func(a, b Delay) int {
		return cmp.Or(cmp.Compare(b.PacedMS, a.PacedMS), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.By, b.By))
	})
	slices.SortFunc(all.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Why, b.Why))
	})
	return all
}

// values returns the values of a map, in any order.
func values[K comparable, V any](of map[K]*V) []V {
	all := make([]V, 0, len(of))
	for _, v := range of {
		all = append(all, *v)
	}
	return all
}
