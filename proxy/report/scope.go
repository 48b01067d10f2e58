package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/store/counts"
)

// A Scope says what a report is about.
type Scope struct {
	counts.Period
	Origin   string // "": all
	Identity string // "": all
}

// A Question is a [Scope] as people write it.
type Question struct {
	Since    string // the first day, or how many days until the last one; "": [DefaultSince]
	Until    string // the last day, or how many days ago it was; "": today
	Origin   string // or any URL there; "": all
	Identity string // "": all
}

// DefaultSince begins a report where nobody says otherwise.
const DefaultSince = "30d"

// maxDays is some 27 years.
const maxDays = 10_000

// Scope reads what is asked for at a time. Its error begins with the name of what is wrong:
// since, until or origin.
func (q Question) Scope(now time.Time) (scope Scope, err error) {
	today := counts.DayOf(now)
	if scope.Until, err = parseDay(q.Until, "0d", today); err != nil {
		return scope, fmt.Errorf("until: %w", err)
	}
	if scope.From, err = parseDay(q.Since, DefaultSince, scope.Until+1); err != nil {
		return scope, fmt.Errorf("since: %w", err)
	}
	switch {
	case scope.From > scope.Until:
		return scope, fmt.Errorf("since: the period would begin on %s, after its last day, %s", scope.From, scope.Until)
	case scope.Until-scope.From >= maxDays:
		return scope, fmt.Errorf("since: the period has more than %d days", maxDays)
	}
	if q.Origin != "" {
		target, err := robots.ParseTarget(q.Origin)
		if err != nil {
			return scope, fmt.Errorf("origin: %s: %w", q.Origin, err)
		}
		scope.Origin = target.Origin.String()
	}
	scope.Identity = q.Identity
	return scope, nil
}

// parseDay reads a day, or a number of days before another. Instead of "" it reads otherwise.
func parseDay(text, otherwise string, before counts.Day) (counts.Day, error) {
	if text == "" {
		text = otherwise
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return before - counts.Day(n), nil
		}
	}
	day, err := counts.ParseDay(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no day; write one, as in 2026-01-31, or a number of days, as in 30d", text)
	}
	return day, nil
}
