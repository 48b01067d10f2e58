package admin

import (
	"testing"
	"time"

	"robotsproxy/robots/policy"
)

// A policy becomes due when requests start to refresh it.
func TestStateOf(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	answered := policy.Policy{FetchedAt: noon, ExpiresAt: noon.Add(24 * time.Hour)}
	failed := answered
	failed.UnreachableSince = noon.Add(20 * time.Hour)
	for _, test := range []struct {
		policy policy.Policy
		after  time.Duration
		want   state
	}{
		{answered, 0, fresh},
		{answered, 18*time.Hour - 1, fresh},
		{answered, 18 * time.Hour, due},
		{answered, 24*time.Hour - 1, due},
		{answered, 24 * time.Hour, expired},
		{failed, 21 * time.Hour, unreachable},
		{failed, 25 * time.Hour, unreachable},
		{policy.Policy{}, 0, expired},
	} {
		if got := stateOf(&test.policy, noon.Add(test.after)); got != test.want {
			t.Errorf("after %v, failing since %v: %s, want %s", test.after, test.policy.UnreachableSince, got, test.want)
		}
	}
}
