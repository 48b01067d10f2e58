package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"robotsproxy/internal/hostname"
	"robotsproxy/robots/policy"
)

const (
	maxPolicies = 1000 // on a page
	// maxScanned bounds the origins that are looked at for one page, and scanBatch those that
	// are read at once.
	maxScanned = 10_000
	scanBatch  = 500
)

// A listing is what a request asks to see of the known origins.
type listing struct {
	after string
	part  hostname.Part
	state state                     // "": any
	less  func(a, b policyView) int // nil: by origin
	limit int
}

// orders are those of policies besides that by origin. Origins that are equal are in the order
// of their names.
var orders = map[string]func(a, b policyView) int{
	"fetched": func(a, b policyView) int { return b.FetchedAt.Compare(a.FetchedAt) },
	"expires": func(a, b policyView) int { return a.ExpiresAt.Compare(b.ExpiresAt) },
	"state": func(a, b policyView) int {
		return cmp.Compare(slices.Index(states, b.State), slices.Index(states, a.State))
	},
}

// listingOf returns the listing that a query names.
func listingOf(query url.Values, limit int) (l listing, problem string) {
	l = listing{after: query.Get("after"), part: hostname.PartOf(query.Get("q")), state: state(query.Get("state")), limit: limit}
	if l.state != "" && !slices.Contains(states, l.state) {
		return l, "state: write fresh, due, expired or unreachable"
	}
	if sort := query.Get("sort"); sort != "" && sort != "origin" {
		if l.less = orders[sort]; l.less == nil {
			return l, "sort: write origin, fetched, expires or state"
		}
		if l.after != "" {
			return l, "after: only a list that is sorted by origin has pages"
		}
	}
	return l, ""
}

// A policyPage is a part of the list of policies.
type policyPage struct {
	Policies []policyView `json:"policies"`
	Next     string       `json:"next,omitempty"`
	// Partial means that there are more origins than one request looks at, so that a list that
	// is not sorted by origin may lack some that belong there.
	Partial bool `json:"partial,omitempty"`
}

// policies lists known origins: those that contain q and are in a state, page by page. A page's
// "next" is the "after" of the page that follows; a page may be empty and have one.
func (a *Admin) policies(w http.ResponseWriter, r *http.Request) {
	limit, ok := limitOf(w, r, maxPolicies)
	if !ok {
		return
	}
	l, problem := listingOf(r.URL.Query(), limit)
	if problem != "" {
		writeProblem(w, http.StatusBadRequest, problem)
		return
	}
	page, err := a.list(r.Context(), l)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", page)
}

// list returns the page that l describes.
func (a *Admin) list(ctx context.Context, l listing) (policyPage, error) {
	page := policyPage{Policies: []policyView{}}
	stored := l.part.String()
	if !l.part.IsASCII() {
		stored = hostname.Punycode // the store does not know what it stands for
	}
	for scanned := 0; ; {
		// One more than the page holds shows whether another page follows.
		batch := min(max(l.limit+1, scanBatch), maxScanned-scanned)
		found, err := a.setup.Origins.Policies(ctx, l.after, stored, batch)
		if err != nil {
			return page, err
		}
		for _, p := range found {
			if v := a.viewOf(p); l.part.In(v.Origin) && (l.state == "" || l.state == v.State) {
				page.Policies = append(page.Policies, v)
			}
			l.after = p.Origin.String()
		}
		scanned += len(found)
		switch {
		case l.less == nil && len(page.Policies) > l.limit:
			page.Policies = page.Policies[:l.limit]
			page.Next = page.Policies[l.limit-1].Origin
			return page, nil
		case len(found) < batch:
			return l.sorted(page), nil
		case scanned >= maxScanned:
			if l.less == nil {
				page.Next = l.after
			}
			page.Partial = l.less != nil
			return l.sorted(page), nil
		}
	}
}

// sorted returns the page in its order, with the first of its policies.
func (l *listing) sorted(page policyPage) policyPage {
	if l.less != nil {
		slices.SortStableFunc(page.Policies, l.less)
		page.Policies = page.Policies[:min(len(page.Policies), l.limit)]
	}
	return page
}

// policyView is a policy as the API shows it.
type policyView struct {
	Origin           string         `json:"origin"`
	State            state          `json:"state"`
	Outcome          policy.Outcome `json:"outcome"`
	Status           int            `json:"status,omitempty"`
	Cause            string         `json:"cause,omitempty"`
	FetchedAt        time.Time      `json:"fetched_at,omitzero"`
	ExpiresAt        time.Time      `json:"expires_at,omitzero"`
	UnreachableSince time.Time      `json:"unreachable_since,omitzero"`
	NextTry          time.Time      `json:"next_try,omitzero"`
	SHA256           string         `json:"sha256,omitempty"`
	Text             string         `json:"text,omitempty"`
	Sitemaps         []string       `json:"sitemaps,omitempty"`
	Licenses         []string       `json:"licenses,omitempty"`
}

// viewOf returns p without its text: a page of texts could take half a gigabyte.
func (a *Admin) viewOf(p *policy.Policy) policyView {
	return policyView{
		Origin:           p.Origin.String(),
		State:            stateOf(p, a.now()),
		Outcome:          p.Outcome,
		Status:           p.Status,
		Cause:            p.Cause,
		FetchedAt:        p.FetchedAt.UTC(),
		ExpiresAt:        p.ExpiresAt.UTC(),
		UnreachableSince: p.UnreachableSince.UTC(),
		NextTry:          p.NextTry.UTC(),
		SHA256:           p.SHA256,
	}
}

// state says how current a policy is.
type state string

const (
	fresh       state = "fresh"
	due         state = "due"         // the next request starts a fetch, and does not wait for it
	expired     state = "expired"     // the next request waits for a fetch
	unreachable state = "unreachable" // the last fetch failed
)

// states are all of them, the most current first.
var states = []state{fresh, due, expired, unreachable}

func stateOf(p *policy.Policy, now time.Time) state {
	switch {
	case !p.UnreachableSince.IsZero():
		return unreachable
	case !now.Before(p.ExpiresAt):
		return expired
	case !now.Before(p.RefreshAt()):
		return due
	}
	return fresh
}
