package identity

import (
	"errors"
	"iter"
	"net/http"
	"net/netip"
	"slices"

	"robotsproxy/internal/keyerr"
)

// Asker is what is known of the sender of a request. The zero value is a question on a bot's
// behalf, without a request.
type Asker struct {
	Addr   netip.Addr
	User   string      // from Proxy-Authorization; "" for none
	Header http.Header // nil if there is no request
}

// UserAgent returns the request's own User-Agent; "" if it has none.
func (a *Asker) UserAgent() string { return a.Header.Get("User-Agent") }

// Match is a condition on requests. Every part that is set must hold; of a list, one item must.
// The zero Match holds for all requests.
type Match struct {
	UserAgents []Glob          `yaml:"user_agents"`
	Clients    []netip.Prefix  `yaml:"clients"` // source addresses
	Users      []string        `yaml:"users"`
	Headers    map[string]Glob `yaml:"headers"`
}

// IsEmpty reports whether there is no condition, so that every request meets it.
func (m *Match) IsEmpty() bool {
	return len(m.UserAgents)+len(m.Clients)+len(m.Users)+len(m.Headers) == 0
}

// holds reports whether a request by a meets the condition.
func (m *Match) holds(a *Asker) bool {
	if len(m.UserAgents) > 0 {
		agent := a.UserAgent()
		if !slices.ContainsFunc(m.UserAgents, func(g Glob) bool { return g.Match(agent) }) {
			return false
		}
	}
	if len(m.Clients) > 0 {
		addr := a.Addr.Unmap().WithZone("")
		if !slices.ContainsFunc(m.Clients, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
	}
	if len(m.Users) > 0 && !slices.Contains(m.Users, a.User) {
		return false
	}
	for name, value := range m.Headers {
		if !slices.ContainsFunc(a.Header.Values(name), value.Match) {
			return false
		}
	}
	return true
}

// Entry is an identity with its name and the condition on its requests. It is an item of the
// list "identities" of a configuration.
type Entry struct {
	Name     string `yaml:"name"`
	Match    Match  `yaml:"match"`
	Identity `yaml:",inline"`
}

// Validate joins all that is wrong with e, each fault a [keyerr.Error].
func (e Entry) Validate() error {
	var errs []error
	switch e.Name {
	case "":
		errs = append(errs, keyerr.New("name", "an identity needs one, by which logs and metrics call it"))
	case DefaultName:
		errs = append(errs, keyerr.New("name", "%s is the name of default_identity; choose another", DefaultName))
	}
	for i, user := range e.Match.Users {
		if user == "" {
			errs = append(errs, keyerr.New(keyerr.Item("match.users", i), "it is empty; remove users to match requests without one"))
		}
	}
	return errors.Join(append(errs, e.Identity.Validate())...)
}

// DefaultName is the name of the default identity.
const DefaultName = "default"

// Table finds the identity of a request: the first entry that matches, else the default.
type Table struct {
	Entries []Entry
	Default Identity
}

// Identify returns the identity of a request and its name. An Asker without a request has the
// default identity. The identity belongs to the table and must not be changed.
func (t *Table) Identify(a *Asker) (*Identity, string) {
	for i := range t.Entries {
		if e := &t.Entries[i]; a.Header != nil && e.Match.holds(a) {
			return &e.Identity, e.Name
		}
	}
	return &t.Default, DefaultName
}

// Named returns the identity of that name; nil if there is none. It belongs to the table and
// must not be changed.
func (t *Table) Named(name string) *Identity {
	for known, id := range t.All() {
		if known == name {
			return id
		}
	}
	return nil
}

// All yields the identities with their names, in the order in which they are tried; the default
// comes last.
func (t *Table) All() iter.Seq2[string, *Identity] {
	return func(yield func(string, *Identity) bool) {
		for i := range t.Entries {
			if !yield(t.Entries[i].Name, &t.Entries[i].Identity) {
				return
			}
		}
		yield(DefaultName, &t.Default)
	}
}

// IdentifyTunnel returns the identity that every request in a tunnel will have; nil if its
// CONNECT does not determine it. It does if an entry matches by address or user, and no entry
// before that has a condition on User-Agent or headers, which only the requests inside show.
func (t *Table) IdentifyTunnel(a *Asker) *Identity {
	for i := range t.Entries {
		switch e := &t.Entries[i]; {
		case len(e.Match.UserAgents) > 0 || len(e.Match.Headers) > 0:
			return nil
		case e.Match.holds(a):
			return &e.Identity
		}
	}
	return nil
}

// Any reports whether such holds for any identity, the default included.
func (t *Table) Any(such func(*Identity) bool) bool {
	for i := range t.Entries {
		if such(&t.Entries[i].Identity) {
			return true
		}
	}
	return such(&t.Default)
}
