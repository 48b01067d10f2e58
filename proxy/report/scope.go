package report

import (
	"cmp"
	"fmt"
	"net/url"
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

// QuestionOf returns the question that the query of a URL asks.
func QuestionOf(query url.Values) Question {
	return Question{Since: query.Get("since"), Until: query.Get("until"), Origin: query.Get("origin"), Identity: query.Get("identity")}
}

// DefaultSince begins a report where nobody says otherwise.
const DefaultSince = "30d"

// Scope reads what is asked for at a time. Its error begins with the name of what is wrong:
// since, until or origin.
func (q Question) Scope(now time.Time) (scope Scope, err error) {
	if scope.Until, err = counts.ParseUntil(cmp.Or(q.Until, "0d"), counts.DayOf(now)); err != nil {
		return scope, fmt.Errorf("until: %w", err)
	}
	if scope.From, err = counts.ParseFrom(cmp.Or(q.Since, DefaultSince), scope.Until); err != nil {
		return scope, fmt.Errorf("since: %w", err)
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
