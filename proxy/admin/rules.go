package admin

import (
	"cmp"
	"net/http"

	"robotsproxy/proxy/admin/ledger"
	"robotsproxy/proxy/gate"
	"robotsproxy/robots"
	"robotsproxy/robots/preference"
)

// rules responds with an origin's robots.txt line by line: which lines apply to an agent, and
// how often each has decided.
func (a *Admin) rules(w http.ResponseWriter, r *http.Request) {
	p := a.known(w, r)
	if p == nil {
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
		Origin string     `json:"origin"`
		SHA256 string     `json:"sha256,omitempty"`
		Agents []string   `json:"agents"`
		Agent  string     `json:"agent,omitempty"`
		Group  string     `json:"group,omitempty"`
		Lines  []lineView `json:"lines"`
	}{Origin: p.Origin.String(), SHA256: p.SHA256, Agents: tokens, Lines: []lineView{}}
	if p.File != nil {
		if group, token := p.File.Group(tokens); group != nil {
			view.Agent, view.Group = token, group.Name()
		}
		for i, l := range robots.Lines(p.Text, tokens) {
			shown := lineView{Line: i + 1, Text: l.Text, Rule: l.Rule, Group: l.Group}
			if l.Rule || l.Preference {
				shown.Hits = a.ledger.Hits(ledger.Line{Origin: view.Origin, SHA256: view.SHA256, Number: shown.Line})
			}
			view.Lines = append(view.Lines, shown)
		}
	}
	writeJSON(w, http.StatusOK, "application/json", view)
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
