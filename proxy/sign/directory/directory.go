// Package directory serves the key directories in which verifiers look up who signs: one for
// each agent, with the keys of all who name it.
//
// [Directory] is the handler. It follows the configuration by [Directory.SetAgents].
// [NewServer] serves it to the world. [Agent.StaticFiles] are for a host that serves it instead.
package directory

import (
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
)

const (
	// signaturesHold is how long a directory's signatures hold. Whoever collects directories
	// into lists drops keys whose signatures have expired, so it is well beyond the interval
	// at which lists are published.
	signaturesHold = 7 * 24 * time.Hour
	// resignEvery is how old signatures get before a request has them made afresh.
	resignEvery = time.Hour
	// clockSkew is how far signatures are dated back. Verifiers refuse one from the future,
	// and their clocks differ from ours.
	clockSkew = 5 * time.Second
)

// MaxAge is how long caches may keep a directory: a key that is taken out of it may be trusted
// for so long. Signatures must hold longer.
const MaxAge = time.Hour

// cacheControl is the value of Cache-Control that states [MaxAge].
const cacheControl = "max-age=3600"

// An Agent is an origin at which verifiers look for keys, and the keys that they find there.
type Agent struct {
	Origin robots.Origin
	Keys   []*sign.Key
}

// AgentsOf returns the agents that loaded identities name, in their order. Identities may
// share an agent: it then has the keys of all. The keys are in the order of their
// thumbprints, each once, so that proxies with the same keys publish the same body, and the
// signatures of one hold for the body of another.
func AgentsOf(identities iter.Seq2[string, *identity.Identity]) []Agent {
	var agents []Agent
	for _, id := range identities {
		if len(id.Keys()) == 0 {
			continue
		}
		i := slices.IndexFunc(agents, func(a Agent) bool { return a.Origin == id.Agent() })
		if i < 0 {
			i = len(agents)
			agents = append(agents, Agent{Origin: id.Agent()})
		}
		agents[i].Keys = append(agents[i].Keys, id.Keys()...)
	}
	for i, a := range agents {
		slices.SortFunc(a.Keys, func(a, b *sign.Key) int { return strings.Compare(a.ID(), b.ID()) })
		agents[i].Keys = slices.CompactFunc(a.Keys, func(a, b *sign.Key) bool { return a.ID() == b.ID() })
	}
	return agents
}

// sign returns the agent's directory. Its signatures hold from a few seconds before now, for
// clocks that differ, until hold after now.
func (a Agent) sign(now time.Time, hold time.Duration) (sign.Directory, error) {
	return sign.SignDirectory(a.Keys, a.Origin, now.Add(-clockSkew), now.Add(hold))
}

// A Directory serves the directories of agents at / and at [sign.DirectoryPath]. It is a
// handler for GET and HEAD, and safe for concurrent use. With several agents, the Host of a
// request says which is meant. With one, any Host gets it, since a proxy in front may change
// Host. What is signed never depends on Host. Without agents, it answers 404.
type Directory struct {
	now func() time.Time

	mu     sync.Mutex
	agents []*signedAgent
}

// A signedAgent is an agent with its latest directory.
type signedAgent struct {
	Agent
	directory sign.Directory
	signedAt  time.Time
}

// New returns a directory without agents, which tells the time by now.
func New(now func() time.Time) *Directory { return &Directory{now: now} }

// SetAgents replaces the agents. If it returns an error, the old ones stay.
func (d *Directory) SetAgents(agents []Agent) error {
	now := d.now()
	var signed []*signedAgent
	for _, a := range agents {
		s := &signedAgent{Agent: a}
		if err := s.renew(now); err != nil {
			return fmt.Errorf("the directory of %s: %w", a.Origin, err)
		}
		signed = append(signed, s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.agents = signed
	return nil
}

func (s *signedAgent) renew(now time.Time) error {
	directory, err := s.sign(now, signaturesHold)
	if err != nil {
		return err
	}
	// Round drops the monotonic reading, which does not notice that the clock is set, and
	// stands still while the machine sleeps.
	s.directory, s.signedAt = directory, now.Round(0)
	return nil
}

func (d *Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	directory, found, err := d.find(r.Host)
	switch {
	case !found || r.URL.Path != "/" && r.URL.Path != sign.DirectoryPath:
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		h := w.Header()
		directory.Set(h)
		h.Set("Cache-Control", cacheControl)
		h.Set("Content-Length", strconv.Itoa(len(directory.Body)))
		h.Set("X-Content-Type-Options", "nosniff")
		w.Write(directory.Body) // net/http writes no body to HEAD
	}
}

// find returns the directory for a Host, with signatures that are not old.
func (d *Directory) find(host string) (directory sign.Directory, found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	agent := d.agent(host)
	if agent == nil {
		return sign.Directory{}, false, nil
	}
	now := d.now()
	if age := now.Sub(agent.signedAt); age >= resignEvery || age < 0 { // the clock may be set back
		if err := agent.renew(now); err != nil {
			return sign.Directory{}, true, err
		}
	}
	return agent.directory, true, nil
}

// agent returns the agent that a Host means, or nil.
func (d *Directory) agent(host string) *signedAgent {
	if len(d.agents) == 1 {
		return d.agents[0]
	}
	origin, err := robots.ParseOrigin("https://" + host)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(d.agents, func(a *signedAgent) bool { return a.Origin == origin })
	if i < 0 {
		return nil
	}
	return d.agents[i]
}
