package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
)

// A Builder adds counts up to a report. Make one with [New].
type Builder struct {
	scope       Scope
	days        map[counts.Day]*sums
	identities  map[string]*sums
	origins     map[string]*sums
	refusals    map[Refusal]*Refusal // by what names them, without counts
	preferences map[Preference]*Preference
	overrides   map[Override]*Override
	unreachable map[string]*outage
	changes     []Change
	unassigned  int64
}

// sums are the counts of [Totals], by outcome.
type sums struct {
	outcomes map[counts.Outcome]int64
	all      counts.Count
}

func (s *sums) totals() Totals {
	if s == nil {
		return Totals{}
	}
	return Totals{
		Requests:       s.all.Requests,
		Allowed:        s.outcomes[counts.Passed],
		WouldBeRefused: s.outcomes[counts.WouldRefuse],
		Refused:        s.outcomes[counts.Refused],
		RefusedForPace: s.outcomes[counts.Late],
		Paced:          s.all.Paced,
		PacedSeconds:   s.all.Waited.Seconds(),
		Challenged:     s.all.Challenged,
		TurnedAway:     s.all.TurnedAway,
		Priced:         s.all.Priced,
	}
}

func (s *sums) add(row *counts.Row) {
	if s.outcomes == nil {
		s.outcomes = map[counts.Outcome]int64{}
	}
	s.outcomes[row.Outcome] += row.Requests
	s.all.Add(row.Count)
}

// An outage is what is known of an unreachable robots.txt.
type outage struct {
	requests int64
	days     map[counts.Day]bool
	causes   map[string]bool
}

// New returns a Builder of a report without counts.
func New(scope Scope) *Builder {
	return &Builder{
		scope:       scope,
		days:        map[counts.Day]*sums{},
		identities:  map[string]*sums{},
		origins:     map[string]*sums{},
		refusals:    map[Refusal]*Refusal{},
		preferences: map[Preference]*Preference{},
		overrides:   map[Override]*Override{},
		unreachable: map[string]*outage{},
	}
}

// Ran notes that a proxy has run on a day.
func (b *Builder) Ran(day counts.Day) { entry(b.days, day) }

// Add adds a row, unless it is not what the report is about. It returns no error.
func (b *Builder) Add(row counts.Row) error {
	if !b.scope.Has(row.Day) || b.scope.Identity != "" && row.Identity != b.scope.Identity {
		return nil
	}
	if b.scope.Origin != "" && row.Origin != b.scope.Origin {
		if row.Origin == "" {
			b.unassigned += row.Requests
		}
		return nil
	}
	entry(b.days, row.Day).add(&row)
	entry(b.identities, row.Identity).add(&row)
	entry(b.origins, row.Origin).add(&row)
	b.addRefusal(&row)
	switch decision.Reason(row.Reason) {
	case decision.Unreachable:
		b.addUnreachable(&row)
	case decision.Overridden:
		o := Override{Origin: row.Origin, Verdict: row.Verdict, Reason: row.OverrideReason}
		named(b.overrides, o).Requests += row.Requests
	}
	return nil
}

// AddChange adds a change of a robots.txt, unless it is not what the report is about. In a
// report about one identity, the changes are those of the origins that it has asked.
func (b *Builder) AddChange(c Change) {
	if !b.scope.Has(counts.DayOf(c.Time)) || b.scope.Origin != "" && c.Origin != b.scope.Origin {
		return
	}
	b.changes = append(b.changes, c)
}

func (b *Builder) addRefusal(row *counts.Row) {
	if row.Outcome == counts.Passed {
		return
	}
	name := refusalOf(row)
	r := named(b.refusals, name)
	if row.Outcome == counts.WouldRefuse {
		r.WouldBeRefused += row.Requests
	} else {
		r.Refused += row.Requests
	}
	if name.Reason != string(decision.ByPreference) {
		return
	}
	p := named(b.preferences, Preference{Origin: row.Origin, Preference: row.Preference})
	if row.Outcome == counts.WouldRefuse {
		p.WouldBeRefused += row.Requests
	} else {
		p.Refused += row.Requests
	}
}

// refusalOf returns the refusal that a row is of, without counts.
func refusalOf(row *counts.Row) Refusal {
	r := Refusal{Origin: row.Origin, Reason: row.Reason}
	switch {
	case row.Outcome == counts.Late:
		r.Reason = ForPace
	case row.Verdict == string(decision.Allowed), r.Reason == string(decision.ByPreference): // the former by preferences.mode report
		r.Reason, r.Preference = string(decision.ByPreference), row.Preference
	default:
		r.Rule = row.Rule
	}
	return r
}

func (b *Builder) addUnreachable(row *counts.Row) {
	u := entry(b.unreachable, row.Origin)
	if u.days == nil {
		u.days, u.causes = map[counts.Day]bool{}, map[string]bool{}
	}
	u.requests += row.Requests
	u.days[row.Day] = true
	if row.Cause != "" {
		u.causes[row.Cause] = true
	}
}

// Report returns what has been added up.
func (b *Builder) Report() *Report {
	r := &Report{
		From: b.scope.From, Until: b.scope.Until, Origin: b.scope.Origin, Identity: b.scope.Identity,
		Days: []Day{}, Identities: []Identity{}, Origins: []Origin{}, Unreachable: []Unreachable{}, Changes: []Change{},
		Unassigned: b.unassigned,
	}
	total := sums{}
	for day := b.scope.From; day <= b.scope.Until; day++ {
		s, ran := b.days[day]
		r.Days = append(r.Days, Day{day, ran, s.totals()})
		if ran {
			total.merge(s)
		}
	}
	r.Totals = total.totals()
	for name, s := range b.identities {
		r.Identities = append(r.Identities, Identity{name, s.totals()})
	}
	for name, s := range b.origins {
		r.Origins = append(r.Origins, Origin{name, s.totals()})
	}
	for name, u := range b.unreachable {
		r.Unreachable = append(r.Unreachable, Unreachable{name, u.requests, len(u.days), append([]string{}, slices.Sorted(maps.Keys(u.causes))...)})
	}
	r.Refusals, r.Preferences, r.Overrides = values(b.refusals), values(b.preferences), values(b.overrides)
	for _, c := range b.changes {
		if _, asked := b.origins[c.Origin]; asked || b.scope.Identity == "" {
			c.Time = c.Time.UTC().Truncate(time.Second)
			r.Changes = append(r.Changes, c)
		}
	}
	r.sort()
	return r
}

// merge adds other sums.
func (s *sums) merge(other *sums) {
	if s.outcomes == nil {
		s.outcomes = map[counts.Outcome]int64{}
	}
	for outcome, n := range other.outcomes {
		s.outcomes[outcome] += n
	}
	s.all.Add(other.all)
}

// sort has the most first, so that two reports of the same counts are the same.
func (r *Report) sort() {
	slices.SortFunc(r.Identities, func(a, b Identity) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Identity, b.Identity))
	})
	slices.SortFunc(r.Origins, func(a, b Origin) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Origin, b.Origin))
	})
	slices.SortFunc(r.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Refused+b.WouldBeRefused, a.Refused+a.WouldBeRefused), cmp.Compare(a.Origin, b.Origin),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Preference, b.Preference))
	})
	slices.SortFunc(r.Unreachable, func(a, b Unreachable) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Origin, b.Origin))
	})
	slices.SortFunc(r.Preferences, func(a, b Preference) int {
		return cmp.Or(cmp.Compare(b.Refused+b.WouldBeRefused, a.Refused+a.WouldBeRefused), cmp.Compare(a.Origin, b.Origin),
			cmp.Compare(a.Preference, b.Preference))
	})
	slices.SortFunc(r.Overrides, func(a, b Override) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Origin, b.Origin),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Verdict, b.Verdict))
	})
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.SHA256, b.SHA256), cmp.Compare(a.Status, b.Status))
	})
}

// entry returns what a map has for a key, which it makes if there is none.
func entry[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

// named returns the line of a list that has these names, which it begins if there is none.
func named[T comparable](m map[T]*T, names T) *T {
	if m[names] == nil {
		m[names] = new(names)
	}
	return m[names]
}

func values[K comparable, V any](m map[K]*V) []V {
	all := make([]V, 0, len(m))
	for _, v := range m {
		all = append(all, *v)
	}
	return all
}
