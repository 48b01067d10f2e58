package report

import (
	"context"
	"time"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// Changes calls do with the changes of robots.txt that were seen from a time until another, in
// no order.
type Changes func(ctx context.Context, from, until time.Time, do func(store.Change)) error

// Read makes the report of what a store has. changes may be nil, for a store that has seen none.
func Read(ctx context.Context, kept counts.Store, changes Changes, scope Scope) (*Report, error) {
	b := New(scope)
	ran, err := kept.DaysRun(ctx, scope.Period)
	if err != nil {
		return nil, err
	}
	for _, day := range ran {
		b.Ran(day)
	}
	if err := kept.Counts(ctx, scope.Period, b.Add); err != nil {
		return nil, err
	}
	if changes == nil {
		return b.Report(), nil
	}
	err = changes(ctx, scope.From.Start(), (scope.Until + 1).Start(), func(c store.Change) {
		b.AddChange(Change{Origin: c.Origin, Time: c.At, Status: c.Status, SHA256: c.SHA256})
	})
	if err != nil {
		return nil, err
	}
	return b.Report(), nil
}
