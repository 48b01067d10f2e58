package counts

import (
	"fmt"
	"strconv"
	"strings"
)

// A Period is the days from the first to the last, both included.
type Period struct{ From, Until Day }

// Has reports whether a day is in the period.
func (p Period) Has(day Day) bool { return day >= p.From && day <= p.Until }

// MaxPeriod is how many days people may ask for: some 27 years.
const MaxPeriod = 10_000

// ParseUntil reads the last day of a period as people write it: a day, or a number of days
// before today, as in 7d.
func ParseUntil(text string, today Day) (Day, error) { return parseDay(text, today) }

// ParseFrom reads the first day of a period that ends with the day until: a day, or how many
// days the period has, as in 30d. The period has up to [MaxPeriod] days, and at least one.
func ParseFrom(text string, until Day) (Day, error) {
	from, err := parseDay(text, until+1)
	switch {
	case err != nil:
		return 0, err
	case from > until:
		return 0, fmt.Errorf("the period would begin on %s, after its last day, %s", from, until)
	case until-from >= MaxPeriod:
		return 0, fmt.Errorf("the period has more than %d days", MaxPeriod)
	}
	return from, nil
}

// parseDay reads a day, or a number of days before another.
func parseDay(text string, before Day) (Day, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return before - Day(n), nil
		}
	}
	day, err := ParseDay(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no day; write one, for example 2026-01-31, or a number of days, for example 30d", text)
	}
	return day, nil
}
