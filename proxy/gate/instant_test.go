package gate

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
)

// A request that starts at once has not been paced, even on a machine that is so busy that it
// takes a while.
func TestBusyMachineDoesNotPace(t *testing.T) {
	policies := PoliciesFunc(func(context.Context, robots.Origin, keeper.Sender) (*policy.Policy, error) {
		return &policy.Policy{Outcome: policy.Rules, File: robots.Parse([]byte("User-agent: *\nDisallow:\n")), Status: 200}, nil
	})
	g, err := New(Settings{}, policies, pace.New(pace.Defaults(), nil, zerolog.Nop(), nil), zerolog.Nop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	g.now = func() time.Time {
		clock = clock.Add(3 * time.Millisecond)
		return clock
	}
	var got decision.Decision
	defer g.Watch(func(d decision.Decision) { got = d })()
	target, err := robots.ParseTarget("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	a, err := g.Admit(t.Context(), Ask{Target: target, Method: "GET"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Done(200, 0, nil)
	if got.PacedMS != 0 || got.PacedBy != "" || got.WaitMS < 3 {
		t.Errorf("paced for %d ms by %q, waited %v ms in all; want neither pace nor holder, and 3 ms or more", got.PacedMS, got.PacedBy, got.WaitMS)
	}
}
