package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
)

func (s Setup) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/verdict", s.verdict)
	mux.HandleFunc("GET /api/v1/policy", s.policy)
	mux.HandleFunc("DELETE /api/v1/policy", s.forget)
	mux.HandleFunc("GET /api/v1/policies", s.policies)
	mux.HandleFunc("GET /api/v1/history", s.history)
	mux.HandleFunc("POST /api/v1/reload", s.reload)
	// A page of another site may have its visitor's browser send a DELETE.
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusForbidden, "a page of another origin may change nothing here")
	}))
	return foreign.Handler(problems(mux))
}

// problems answers what mux has no handler for: by its own statuses, but with a
// problem for a body.
func problems(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		mute := &muteWriter{header: w.Header()}
		h.ServeHTTP(mute, r)
		detail := "there is no " + r.URL.Path
		if mute.status == http.StatusMethodNotAllowed {
			detail = r.URL.Path + " takes " + w.Header().Get("Allow") + ", not " + r.Method
		}
		writeProblem(w, mute.status, detail)
	})
}

// muteWriter keeps the status alone of an answer.
type muteWriter struct {
	header http.Header
	status int
}

func (m *muteWriter) Header() http.Header         { return m.header }
func (m *muteWriter) WriteHeader(status int)      { m.status = status }
func (m *muteWriter) Write(p []byte) (int, error) { return len(p), nil }

// verdict judges a URL for an agent, or for the default identity.
func (s Setup) verdict(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	target, err := robots.ParseTarget(query.Get("url"))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, fmt.Sprintf("url: %v", err))
		return
	}
	v, err := s.Gate.Decide(r.Context(), gate.Ask{
		Target: target,
		Agents: slices.DeleteFunc(query["agent"], func(token string) bool { return token == "" }),
	})
	if err != nil {
		writeProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", v)
}

// policy shows one origin's policy with its robots.txt.
func (s Setup) policy(w http.ResponseWriter, r *http.Request) {
	if p := s.known(w, r); p != nil {
		view := viewOf(p)
		view.Text = string(p.Text)
		if p.File != nil {
			view.Sitemaps = p.File.Sitemaps()
		}
		writeJSON(w, http.StatusOK, "application/json", view)
	}
}

// forget drops one origin's policy.
func (s Setup) forget(w http.ResponseWriter, r *http.Request) {
	p := s.known(w, r)
	if p == nil {
		return
	}
	if err := s.Known.Forget(r.Context(), p.Origin); err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// history shows what one origin has answered over time.
func (s Setup) history(w http.ResponseWriter, r *http.Request) {
	origin, ok := originOf(w, r)
	if !ok {
		return
	}
	history, err := s.Known.History(r.Context(), origin)
	switch {
	case err != nil:
		writeProblem(w, http.StatusInternalServerError, err.Error())
	case len(history.Versions) == 0:
		writeProblem(w, http.StatusNotFound, origin.String()+" has given no robots.txt yet")
	default:
		writeJSON(w, http.StatusOK, "application/json", history)
	}
}

// known is the policy of the origin that a request names; nil if there is none,
// which has been answered then.
func (s Setup) known(w http.ResponseWriter, r *http.Request) *policy.Policy {
	origin, ok := originOf(w, r)
	if !ok {
		return nil
	}
	p, err := s.Known.Peek(r.Context(), origin)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return nil
	}
	if p == nil {
		writeProblem(w, http.StatusNotFound, "nobody has asked for "+origin.String()+" yet")
	}
	return p
}

// originOf is the origin that a request names. It answers one that names none.
func originOf(w http.ResponseWriter, r *http.Request) (robots.Origin, bool) {
	origin, err := robots.ParseOrigin(strings.TrimSuffix(r.URL.Query().Get("origin"), "/"))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, fmt.Sprintf("origin: %v", err))
	}
	return origin, err == nil
}

// reload reads the configuration again.
func (s Setup) reload(w http.ResponseWriter, _ *http.Request) {
	if err := s.Reload(); err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]bool{"reloaded": true})
}

const (
	defaultPage = 100
	maxPage     = 1000
)

// policies lists the known origins by page. A page's next is the after of the
// one that follows.
func (s Setup) policies(w http.ResponseWriter, r *http.Request) {
	limit := defaultPage
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			writeProblem(w, http.StatusBadRequest, fmt.Sprintf("limit: %q is no number from 1 to %d", text, maxPage))
			return
		}
		limit = n
	}
	// One more than is shown tells whether there is a next page.
	known, err := s.Known.Policies(r.Context(), r.URL.Query().Get("after"), limit+1)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	page := struct {
		Policies []policyView `json:"policies"`
		Next     string       `json:"next,omitempty"`
	}{Policies: []policyView{}}
	for _, p := range known[:min(len(known), limit)] {
		page.Policies = append(page.Policies, viewOf(p))
	}
	if len(known) > limit {
		page.Next = page.Policies[limit-1].Origin
	}
	writeJSON(w, http.StatusOK, "application/json", page)
}

// policyView is a policy as the API shows it.
type policyView struct {
	Origin           string         `json:"origin"`
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
}

// viewOf leaves out what is in the text: a page of texts may be half a gigabyte.
func viewOf(p *policy.Policy) policyView {
	return policyView{
		Origin:           p.Origin.String(),
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

// problem is an error of the API (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, "application/problem+json", problem{http.StatusText(status), status, detail})
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.Encode(body) // the client has left if this fails
}
