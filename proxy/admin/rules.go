package admin

import (
	"cmp"
	"net/http"
	"time"

	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
	"robotsproxy/robots/preference"
)

// rules responds with an origin's robots.txt line by line: which lines apply to an agent, and
// how often each has decided. It is the one in force, or the version that sha256 names.
func (a *Admin) rules(w http.ResponseWriter, r *http.Request) {
	file, ok := a.fileOf(w, r)
	if !ok {
		return
	}
	tokens := agentsOf(r)
	if len(tokens) == 0 {
		id, _ := a.setup.Gate.Identify(gate.Ask{}.Asker)
		tokens = id.Tokens("")
	}
	type lineView struct {
		Line  int    `json:"line"`
		Text  string `json:"text"`
		Rule  bool   `json:"rule,omitempty"`
		Group bool   `json:"group,omitempty"`
		Hits  uint64 `json:"hits,omitempty"`
	}
	view := struct {
		Origin string `json:"origin"`
		SHA256 string `json:"sha256,omitempty"`

		// Of a version that is not in force.
		FirstSeen time.Time `json:"first_seen,omitzero"`
		LastSeen  time.Time `json:"last_seen,omitzero"`

		Agents []string   `json:"agents"`
		Agent  string     `json:"agent,omitempty"`
		Group  string     `json:"group,omitempty"`
		Lines  []lineView `json:"lines"`
	}{Origin: file.origin, SHA256: file.sha256, FirstSeen: file.firstSeen, LastSeen: file.lastSeen, Agents: tokens, Lines: []lineView{}}
	if file.parsed != nil {
		if group, token := file.parsed.Group(tokens); group != nil {
			view.Agent, view.Group = token, group.Name()
		}
		for i, l := range robots.Lines(file.text, tokens) {
			shown := lineView{Line: i + 1, Text: l.Text, Rule: l.Rule, Group: l.Group}
			if l.Rule || l.Preference {
				shown.Hits = a.ledger.Hits(ledger.Line{Origin: view.Origin, SHA256: view.SHA256, Number: shown.Line})
			}
			view.Lines = append(view.Lines, shown)
		}
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}

// A fileView is a robots.txt to be shown.
type fileView struct {
	origin, sha256      string
	text                []byte
	parsed              *robots.File // nil if there is no text
	firstSeen, lastSeen time.Time    // of a version that is not in force
}

// fileOf returns the robots.txt that a request names. If there is none, it answers the request
// and reports false.
func (a *Admin) fileOf(w http.ResponseWriter, r *http.Request) (fileView, bool) {
	sha256 := r.URL.Query().Get("sha256")
	if sha256 == "" {
		p := a.known(w, r)
		if p == nil {
			return fileView{}, false
		}
		return fileView{origin: p.Origin.String(), sha256: p.SHA256, text: p.Text, parsed: p.File}, true
	}
	origin, ok := originOf(w, r)
	if !ok {
		return fileView{}, false
	}
	p, err := a.setup.Origins.Peek(r.Context(), origin)
	if err == nil && p != nil && p.SHA256 == sha256 {
		return fileView{origin: p.Origin.String(), sha256: p.SHA256, text: p.Text, parsed: p.File}, true
	}
	history, err := a.setup.Origins.History(r.Context(), origin)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return fileView{}, false
	}
	for _, v := range history.Versions {
		if v.SHA256 == sha256 {
			text := []byte(v.Text)
			return fileView{origin.String(), sha256, text, robots.Parse(text), v.FirstSeen, v.LastSeen}, true
		}
	}
	writeProblem(w, http.StatusNotFound, "no version of that robots.txt with this sha256 is kept")
	return fileView{}, false
}

// identities responds with the identities in the order in which they are tried; the default is
// the last. It does not show how clients are matched, since that may contain users' names.
func (a *Admin) identities(w http.ResponseWriter, _ *http.Request) {
	type signingView struct {
		Key   string `json:"key"`
		Agent string `json:"agent"`
		Form  string `json:"form"`
	}
	type identityView struct {
		Name          string   `json:"name"`
		ProductTokens []string `json:"product_tokens"`
		UserAgent     string   `json:"user_agent,omitempty"`
		From          string   `json:"from,omitempty"`
		Mode          string   `json:"mode"`

		Purposes   []preference.Purpose  `json:"purposes,omitempty"`
		ContentUse preference.ContentUse `json:"content_use,omitempty"`

		Signing *signingView `json:"signing,omitempty"`
	}
	var view struct {
		Identities []identityView `json:"identities"`
	}
	for name, id := range a.setup.Gate.Identities() {
		shown := identityView{
			Name: name, ProductTokens: append([]string{}, id.ProductTokens...), UserAgent: id.UserAgent, From: id.From,
			Mode: cmp.Or(string(id.Mode), "enforce"), Purposes: id.Purposes, ContentUse: id.ContentUse,
		}
		if keys := id.Keys(); len(keys) > 0 {
			shown.Signing = &signingView{keys[0].ID(), id.Agent().String(), cmp.Or(string(id.Signing.Form), "auto")}
		}
		view.Identities = append(view.Identities, shown)
	}
	writeJSON(w, http.StatusOK, "application/json", view)
}

// identityNames returns the names of the identities.
func (a *Admin) identityNames() (names []string) {
	for name := range a.setup.Gate.Identities() {
		names = append(names, name)
	}
	return names
}
