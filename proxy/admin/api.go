package admin

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// routes returns all routes of the API. openapi.json describes them.
func (a *Admin) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /api/v1/verdict":          a.verdict,
		"GET /api/v1/policy":           a.policy,
		"DELETE /api/v1/policy":        a.forget,
		"GET /api/v1/policies":         a.policies,
		"GET /api/v1/history":          a.history,
		"GET /api/v1/rules":            a.rules,
		"GET /api/v1/decisions":        a.decisions,
		"GET /api/v1/decisions/stream": a.stream,
		"GET /api/v1/activity":         a.activity,
		"GET /api/v1/status":           a.status,
		"GET /api/v1/top":              a.top,
		"GET /api/v1/changes":          a.changes,
		"GET /api/v1/identities":       a.identities,
		"GET /api/v1/overrides":        a.overrides,
		"GET /api/v1/pace":             a.pace,
		"GET /api/v1/report":           a.report,
		"POST /api/v1/reload":          a.reload,
		"GET /api/v1/openapi.json":     description,
	}
}

func (a *Admin) api() http.Handler {
	mux := http.NewServeMux()
	for route, handler := range a.routes() {
		mux.HandleFunc(route, handler)
	}
	// A page of another site could make its visitor's browser send a DELETE.
	foreign := http.NewCrossOriginProtection()
	foreign.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, http.StatusForbidden, "pages of other origins must not change anything here")
	}))
	return foreign.Handler(problems(mux))
}

// problems serves mux. Requests that mux has no handler for get the status that mux gives
// them, but a problem as the body.
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

// muteWriter keeps only a response's header and status.
type muteWriter struct {
	header http.Header
	status int
}

func (m *muteWriter) Header() http.Header         { return m.header }
func (m *muteWriter) WriteHeader(status int)      { m.status = status }
func (m *muteWriter) Write(p []byte) (int, error) { return len(p), nil }

// verdict judges a URL for the identity that the request names, or the default one. Agents in
// the request replace the identity's product tokens, and purposes what it declares.
func (a *Admin) verdict(w http.ResponseWriter, r *http.Request) {
	target, err := robots.ParseTarget(r.URL.Query().Get("url"))
	if err == nil {
		err = target.CheckEscapes()
	}
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	use, err := preference.ParseUse(r.URL.Query()["purpose"], r.URL.Query().Get("content_use"))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := a.setup.Gate.Decide(r.Context(), gate.Ask{
		Use:      use,
		Target:   target,
		Identity: r.URL.Query().Get("identity"),
		Agents:   agentsOf(r),
	})
	if unknown := (*gate.UnknownIdentityError)(nil); errors.As(err, &unknown) {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if err != nil {
		writeProblem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", v)
}

//go:embed openapi.json
var openAPI []byte

// description describes the API to programs (OpenAPI 3.1).
func description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(openAPI)
}

// agentsOf returns the product tokens, bare or in whole User-Agents, that a request names.
func agentsOf(r *http.Request) []string {
	var tokens []string
	for _, agent := range r.URL.Query()["agent"] {
		if agent != "" {
			tokens = append(tokens, identity.TokenOf(agent))
		}
	}
	return tokens
}

// policy responds with an origin's policy and its robots.txt.
func (a *Admin) policy(w http.ResponseWriter, r *http.Request) {
	if p := a.known(w, r); p != nil {
		view := a.viewOf(p)
		view.Text = string(p.Text)
		if p.File != nil {
			view.Sitemaps, view.Licenses = p.File.Sitemaps(), p.File.Licenses()
		}
		writeJSON(w, http.StatusOK, "application/json", view)
	}
}

// forget drops an origin's policy.
func (a *Admin) forget(w http.ResponseWriter, r *http.Request) {
	p := a.known(w, r)
	if p == nil {
		return
	}
	if err := a.setup.Origins.Forget(r.Context(), p.Origin); err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// history responds with what an origin has answered over time.
func (a *Admin) history(w http.ResponseWriter, r *http.Request) {
	origin, ok := originOf(w, r)
	if !ok {
		return
	}
	history, err := a.setup.Origins.History(r.Context(), origin)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	if len(history.Versions) == 0 {
		if a.known(w, r) == nil {
			return
		}
		history.Versions = []keeper.Version{} // it has never been reachable
	}
	writeJSON(w, http.StatusOK, "application/json", history)
}

// known returns the policy of the origin that a request names. If there is none, it answers
// the request and returns nil.
func (a *Admin) known(w http.ResponseWriter, r *http.Request) *policy.Policy {
	origin, ok := originOf(w, r)
	if !ok {
		return nil
	}
	p, err := a.setup.Origins.Peek(r.Context(), origin)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return nil
	}
	if p == nil {
		writeProblem(w, http.StatusNotFound, "nobody has asked for "+origin.String()+" yet")
	}
	return p
}

// originOf returns the origin that a request names. If there is none, it answers the request.
func originOf(w http.ResponseWriter, r *http.Request) (robots.Origin, bool) {
	origin, err := robots.ParseOrigin(strings.TrimSuffix(r.URL.Query().Get("origin"), "/"))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
	}
	return origin, err == nil
}

// reload reads the configuration again.
func (a *Admin) reload(w http.ResponseWriter, _ *http.Request) {
	if err := a.setup.Reload(); err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, "application/json", map[string]bool{"reloaded": true})
}

const defaultLimit = 100

// limitOf returns how many items a request asks for at most. If the number is invalid, limitOf
// answers the request and reports false.
func limitOf(w http.ResponseWriter, r *http.Request, maxLimit int) (limit int, ok bool) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, true
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxLimit {
		writeProblem(w, http.StatusBadRequest, fmt.Sprintf("limit: %q is not a number from 1 to %d", text, maxLimit))
		return 0, false
	}
	return limit, true
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
	text, _ := printable.Marshal(body)
	w.Write(text) // an error means that the client has left
}
