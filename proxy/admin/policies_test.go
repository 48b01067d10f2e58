package admin

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"robotsproxy/robots"
	"robotsproxy/robots/policy"
)

// knownOrigins are those of a store, in order.
type knownOrigins struct {
	Origins
	all []*policy.Policy
}

func (k *knownOrigins) Policies(_ context.Context, after, part string, limit int) (found []*policy.Policy, _ error) {
	for _, p := range k.all {
		if origin := p.Origin.String(); origin > after && strings.Contains(origin, part) && len(found) < limit {
			found = append(found, p)
		}
	}
	return found, nil
}

func TestPoliciesByStateAndOrder(t *testing.T) {
	a := newAdmin(t)
	now := time.Now()
	known := &knownOrigins{}
	a.setup.Origins = known
	add := func(host string, fetched, lifetime time.Duration, failing bool) {
		origin, err := robots.ParseOrigin("https://" + host)
		if err != nil {
			t.Fatal(err)
		}
		p := &policy.Policy{Origin: origin, FetchedAt: now.Add(-fetched), ExpiresAt: now.Add(lifetime - fetched)}
		if failing {
			p.UnreachableSince = now
		}
		known.all = append(known.all, p)
	}
	add("a.example", time.Hour, 24*time.Hour, false)
	add("b.example", 2*time.Hour, 24*time.Hour, true)
	add("c.example", 3*time.Hour, 2*time.Hour, false)
	add("d.example", 4*time.Hour, 24*time.Hour, true)
	add("xn--bcher-kva.example", time.Minute, 24*time.Hour, false)

	list := func(query string) (names, next string, partial bool) {
		var page struct {
			Policies []struct{ Origin string }
			Next     string
			Partial  bool
		}
		a.get(t, "policies?"+query, &page)
		var all []string
		for _, p := range page.Policies {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(p.Origin, "https://"), ".example"))
		}
		return strings.Join(all, " "), strings.TrimPrefix(page.Next, "https://"), page.Partial
	}
	for _, test := range []struct{ query, want, next string }{
		{"", "a b c d xn--bcher-kva", ""},
		{"limit=2", "a b", "b.example"},
		{"limit=2&after=https://b.example", "c d", "d.example"},
		{"limit=5", "a b c d xn--bcher-kva", ""},
		{"state=unreachable", "b d", ""},
		{"state=unreachable&limit=1", "b", "b.example"},
		{"state=expired", "c", ""},
		{"sort=fetched&limit=2", "xn--bcher-kva a", ""},
		{"sort=expires", "c d b a xn--bcher-kva", ""},
		{"sort=state", "b d c a xn--bcher-kva", ""},
		{"q=" + url.QueryEscape("Büch"), "xn--bcher-kva", ""},
		{"q=xn--b", "xn--bcher-kva", ""},
	} {
		if got, next, _ := list(test.query); got != test.want || next != test.next {
			t.Errorf("%s: %q, then %q; want %q, then %q", test.query, got, next, test.want, test.next)
		}
	}

	// Of very many origins, a request looks at some only.
	known.all = nil
	for i := range maxScanned + 10 {
		add(fmt.Sprintf("%06d.example", i), time.Hour, 24*time.Hour, i >= maxScanned)
	}
	if got, next, _ := list("state=unreachable"); got != "" || next != fmt.Sprintf("%06d.example", maxScanned-1) {
		t.Errorf("%q, then %q", got, next)
	}
	if got, next, partial := list("sort=state&limit=1"); got != "000000" || next != "" || !partial {
		t.Errorf("sorted: %q, then %q, partial %t", got, next, partial)
	}
}
