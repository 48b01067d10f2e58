// Package counts defines what a store keeps of decisions about requests: for each day, how
// many requests led to the same [Decision]. A [Store] adds [Batch]es to what it has. A [Memory]
// lasts no longer than its process; the stores that last are those of policies.
package counts

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Day is a day in UTC, counted from 1970-01-01.
type Day int

// DayOf returns the day on which t is.
func DayOf(t time.Time) Day {
	const seconds = 24 * 60 * 60
	return Day((t.Unix() - ((t.Unix()%seconds)+seconds)%seconds) / seconds)
}

// ParseDay reads a day as [Day.String] writes it.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	return DayOf(t), err
}

// Start is the midnight with which the day begins.
func (d Day) Start() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// String returns the day as in 2026-01-02.
func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// MarshalText is [Day.String].
func (d Day) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is [ParseDay].
func (d *Day) UnmarshalText(text []byte) (err error) {
	if *d, err = ParseDay(string(text)); err != nil {
		return fmt.Errorf("%q is no day; write it as 2026-01-02", text)
	}
	return nil
}

// An Outcome is what became of a request. The zero Outcome is none.
type Outcome string

const (
	Passed      Outcome = "passed"       // let through
	WouldRefuse Outcome = "would_refuse" // let through, but mode enforce would have refused it
	Refused     Outcome = "refused"      // refused by its verdict
	Late        Outcome = "late"         // refused because its turn would have come too late
)

// A Decision is what is told apart of the decisions of a day. Its texts must be UTF-8, and
// bounded by whoever counts.
type Decision struct {
	Identity       string
	Origin         string // "" for [Decision.Rest]
	Outcome        Outcome
	Verdict        string
	Reason         string
	Rule           string // the rule that decided
	Preference     string // what the site says that refuses the declared use
	Cause          string // why the robots.txt is unreachable
	OverrideReason string
}

// MaxDecisions is how many different decisions of one day are told apart. Those beyond count
// as their [Decision.Rest].
const MaxDecisions = 100_000

// Rest returns what stands for d on a day that has too many different decisions. It has none
// of the texts that sites write, so there are few of them.
func (d Decision) Rest() Decision {
	return Decision{Identity: d.Identity, Outcome: d.Outcome, Verdict: d.Verdict, Reason: d.Reason}
}

// A Count is how often something was decided.
type Count struct {
	Requests int64
	Paced    int64         // of them, how many have waited for their turn
	Waited   time.Duration // for their turns, in whole milliseconds

	// Of them, how many the site or the network before it turned away, although its
	// robots.txt allows them.
	Challenged int64 // it wanted to see a browser, or a person
	TurnedAway int64 // 401, 403 or 429
	Priced     int64 // 402: it wanted to be paid
}

// Add adds another count.
func (c *Count) Add(other Count) {
	c.Requests += other.Requests
	c.Paced += other.Paced
	c.Waited += other.Waited
	c.Challenged += other.Challenged
	c.TurnedAway += other.TurnedAway
	c.Priced += other.Priced
}

// A Row is the count of one decision on one day.
type Row struct {
	Day Day
	Decision
	Count
}

// A Batch is what a proxy has counted since its last one.
type Batch struct {
	ID   string // no other batch has it
	Days []Day  // on which the proxy has run since
	Rows []Row  // of which no two have the same day and decision
}

// A Store keeps counts. It is safe for concurrent use.
type Store interface {
	// AddCounts adds a batch to what is kept. After an error nothing of it is kept, or the
	// store knows by its ID what is: callers may add the same batch again, until there is no
	// error. Days have up to MaxDecisions different decisions and what is the rest of others.
	AddCounts(ctx context.Context, b Batch) error
	// Counts calls do with each row of a period, in no order, until do returns an error,
	// which it returns.
	Counts(ctx context.Context, p Period, do func(Row) error) error
	// DaysRun returns on which days of a period a proxy has run, in order.
	DaysRun(ctx context.Context, p Period) ([]Day, error)
}

// clone returns d with texts of its own: they may be parts of much longer ones.
func (d Decision) clone() Decision {
	d.Identity, d.Origin, d.Rule = strings.Clone(d.Identity), strings.Clone(d.Origin), strings.Clone(d.Rule)
	d.Preference, d.Cause, d.OverrideReason = strings.Clone(d.Preference), strings.Clone(d.Cause), strings.Clone(d.OverrideReason)
	return d
}
