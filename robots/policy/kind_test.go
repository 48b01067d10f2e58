package policy

import (
	"reflect"
	"testing"
	"time"

	"robotsproxy/robots/fetch"
	"robotsproxy/robots/store"
)

func TestOptionsForKinds(t *testing.T) {
	opts := with(func(o *Options) { o.Statuses = map[int]fetch.Meaning{403: fetch.MeansDisallow} })
	if got := opts.For(RobotsTxt); !reflect.DeepEqual(got, opts) {
		t.Errorf("robots.txt: got %+v", got)
	}
	of := opts.For(TDMRep)
	for name, test := range map[string]struct {
		rec    store.Record
		hours  int // since noon
		want   Outcome
		allows bool
		need   Need
	}{
		"never asked":                    {store.Record{}, 0, None, false, NeedFetch},
		"a text":                         {answered(200), 1, Rules, false, NeedNothing},
		"a text, expired":                {answered(200), 25, None, false, NeedFetch},
		"a text, expired, unreachable":   {failing(answered(200), after(24*hour), after(25*hour)), 25, Rules, false, NeedRefresh},
		"403, which statuses do not ban": {answered(403), 1, Unavailable, true, NeedNothing},
		"404, expired, unreachable":      {failing(answered(404), after(24*hour), after(25*hour)), 25, Unreachable, false, NeedFetch},
		"404, unreachable for 31 days":   {failing(answered(404), after(24*hour), after(25*hour)), 24 * 32, UnreachableExpired, true, NeedRefresh},
		"never reached":                  {failing(store.Record{}, noon, after(hour)), 1, Unreachable, false, NeedFetch},
	} {
		a := of.Assess(test.rec, after(time.Duration(test.hours)*hour))
		if a.Policy.Outcome != test.want || a.Policy.AllowAll != test.allows || a.Need != test.need {
			t.Errorf("%s: %q, allows %v, need %d; want %q, %v, %d", name, a.Policy.Outcome, a.Policy.AllowAll, a.Need, test.want, test.allows, test.need)
		}
	}
}
