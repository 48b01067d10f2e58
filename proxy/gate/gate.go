// Package gate judges requests. It is the only place where a request is
// judged: every door of the proxy, the check command and the API ask here.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
	"robotsproxy/robots/policy"
)

// Settings are the operator's part in a judgment. They are never changed, only
// replaced as a whole.
type Settings struct {
	Identities identity.Table
	Overrides  []Override // the first that matches counts
	MaxBytes   int64      // how much of an override's robots_file counts; 0: as much as of a robots.txt by default
	LogFilter  LogFilter

	// StrictPaths has a path judged both as RFC 9309 compares it and as servers
	// read it (see [robots.AsServed]): it is refused if either is disallowed.
	StrictPaths bool
}

// load readies the settings for use; it does not change s.
func (s Settings) load() (*Settings, error) {
	s.Overrides = slices.Clone(s.Overrides)
	for i := range s.Overrides {
		if err := s.Overrides[i].load(cmp.Or(s.MaxBytes, policy.Defaults().MaxBytes)); err != nil {
			return nil, err
		}
	}
	return &s, nil
}

// overrideOf is the operator's word on an origin; nil if there is none.
func (s *Settings) overrideOf(origin string) *Override {
	for i := range s.Overrides {
		if o := &s.Overrides[i]; o.Origin.Match(origin) {
			return o
		}
	}
	return nil
}

// Policies knows what an origin allows now. A fetch that the question causes is
// made on behalf of by. An error means that there is no answer: the
// context has ended, or the source has been closed.
type Policies interface {
	Policy(ctx context.Context, origin robots.Origin, by policy.Sender) (*policy.Policy, error)
}

// Gate judges requests by the settings and policies that hold at that moment. Its
// methods may be called by many at once.
type Gate struct {
	settings atomic.Pointer[Settings]
	policies Policies
	pacer    *pace.Pacer // nil: nothing is paced
	account  *account
	now      func() time.Time
}

// New makes a gate. It reads the files that the settings name, has requests take their
// turns by pacer (nil: they need not), writes decisions to log and registers its
// metrics with metrics; nil leaves them unregistered.
func New(settings Settings, policies Policies, pacer *pace.Pacer, log zerolog.Logger, metrics prometheus.Registerer) (*Gate, error) {
	loaded, err := settings.load()
	if err != nil {
		return nil, err
	}
	g := &Gate{policies: policies, pacer: pacer, account: newAccount(log, metrics), now: time.Now}
	g.use(loaded)
	return g, nil
}

// SetSettings puts other settings in the place of those that are, for what is judged from
// now on. It reads the files that they name; an error leaves all as it was.
func (g *Gate) SetSettings(settings Settings) error {
	loaded, err := settings.load()
	if err == nil {
		g.use(loaded)
	}
	return err
}

func (g *Gate) use(settings *Settings) {
	g.account.expect(settings.Identities.All())
	g.settings.Store(settings)
}

// Ask is the question put to the gate: may this client have that URL?
type Ask struct {
	Target robots.Target

	identity.Asker
	// Where somebody asks on a bot's behalf, Identity names the one to judge as, ""
	// for the one that the asker has, and Agents stand in for its product tokens.
	Identity string
	Agents   []string

	Method string
}

// UnknownIdentityError says that an ask names an identity which the configuration has not.
type UnknownIdentityError struct {
	Name  string
	Known []string
}

func (u *UnknownIdentityError) Error() string {
	return fmt.Sprintf("there is no identity %q; the configuration has %s", u.Name, strings.Join(u.Known, ", "))
}

// Decide judges. The verdict says all that is known even where err says that
// nothing could be decided: then it refuses. The error is an [*UnknownIdentityError] where
// the ask names one.
func (g *Gate) Decide(ctx context.Context, ask Ask) (Verdict, error) {
	var v Verdict
	_, err := g.decide(ctx, g.settings.Load(), &ask, g.now(), &v)
	return v, err
}

// decide writes the verdict to v, the zero value before, and says who is asking. It
// is deep in a request's stack, which is small at first: growing it costs more than
// all else here.
func (g *Gate) decide(ctx context.Context, settings *Settings, ask *Ask, now time.Time, v *Verdict) (*identity.Identity, error) {
	id, name := settings.Identities.Identify(&ask.Asker)
	if ask.Identity != "" {
		if id, name = settings.Identities.Named(ask.Identity), ask.Identity; id == nil {
			return nil, settings.unknown(name)
		}
	}
	tokens := ask.Agents
	if len(tokens) == 0 {
		tokens = id.Tokens(ask.UserAgent())
	}
	robotsURL := ask.Target.Origin.RobotsURL()
	v.URL = ask.Target.String()
	v.Origin = strings.TrimSuffix(robotsURL, "/robots.txt") // one piece of memory for both
	v.RobotsURL = robotsURL
	v.Agent, v.Identity = tokens[0], name
	v.Judgment = Disallowed
	v.mode, v.strict = id.Mode, settings.StrictPaths
	v.at = time.Duration(now.Unix()%86400) * time.Second
	if o := settings.overrideOf(v.Origin); o != nil {
		v.override(o, tokens, ask.Target)
		return id, nil
	}
	switch {
	case id.Mode == identity.Off:
		v.Judgment, v.Reason = Allowed, Exempt
		return id, nil
	case ask.Target.IsRobotsTxt():
		v.Judgment, v.Reason = Allowed, RobotsTxt
		return id, nil
	}
	p, err := g.policies.Policy(ctx, ask.Target.Origin, policy.Sender{
		Identity: name, UserAgent: id.UserAgent, From: id.From,
		Client: ask.Addr, ClientAgent: ask.UserAgent(),
	})
	if err != nil {
		v.Reason, v.Cause, v.mode = Unreachable, "it was not waited for", identity.Enforce
		return id, fmt.Errorf("asking what %s allows: %w", v.Origin, err)
	}
	v.apply(p, tokens, ask.Target.Path)
	return id, nil
}

func (s *Settings) unknown(name string) *UnknownIdentityError {
	u := &UnknownIdentityError{Name: name}
	for known := range s.Identities.All() {
		u.Known = append(u.Known, known)
	}
	return u
}

// apply judges a path by a policy.
func (v *Verdict) apply(p *policy.Policy, tokens []string, path string) {
	v.RobotsStatus = p.Status
	v.RobotsSHA256 = p.SHA256
	v.FetchedAt, v.ExpiresAt = p.FetchedAt, p.ExpiresAt
	v.Cause, v.NextTry = p.Cause, p.NextTry

	switch p.Outcome {
	case policy.Rules:
		v.match(p.File, tokens, path)
	case policy.None:
		v.Reason = Unreachable
	default:
		v.Reason = Reason(p.Outcome)
		if p.AllowAll {
			v.Judgment = Allowed
		}
	}
}

func (v *Verdict) match(file *robots.File, tokens []string, path string) {
	v.file = file
	v.Sitemaps = file.Sitemaps()
	group, token := file.Group(tokens)
	if group == nil {
		v.Judgment, v.Reason = Allowed, NoGroup
		return
	}
	v.Group = group.Name()
	if token != "*" {
		v.Agent = token
	}
	v.group = group
	if delay, stated := group.Delay(v.at); stated {
		seconds := delay.Seconds()
		v.delay = delay
		v.CrawlDelay = &seconds
	}
	rule, matches := group.Match(path)
	if v.strict && (!matches || rule.Allow) {
		served := robots.AsServed(path)
		if other, matches2 := group.Match(served); matches2 && !other.Allow {
			rule, matches, v.served = other, true, served
		}
	}
	switch {
	case !matches:
		v.Judgment, v.Reason = Allowed, NoRule
		rule, _ = group.Blank()
	case rule.Allow:
		v.Judgment, v.Reason = Allowed, ByRule
	case rule.Line == 0:
		v.Reason = TooCostly
	default:
		v.Reason = ByRule
	}
	if rule.Line > 0 {
		v.Rule, v.Line = rule.String(), rule.Line
	}
}

// Identify says as whom a request would be judged: the name of its identity and
// its product tokens.
func (g *Gate) Identify(a identity.Asker) (name string, tokens []string) {
	id, name := g.settings.Load().Identities.Identify(&a)
	return name, id.Tokens(a.UserAgent())
}

// Identities yields those that requests are told apart by now, by name, in the order in
// which they are tried; the default comes last. They must not be changed.
func (g *Gate) Identities() iter.Seq2[string, *identity.Identity] {
	return g.settings.Load().Identities.All()
}

// Admission is a request that has been judged, from the gate to its end.
type Admission struct {
	Verdict
	Bot    *identity.Identity
	Target robots.Target

	client   netip.Addr
	method   string
	settings *Settings
	gate     *Gate
	asked    time.Time
	waited   time.Duration
	late     *pace.Late // set if its turn would come too late
	permit   pace.Permit
}

// admission is that of an ask which has yet to be judged.
func (g *Gate) admission(ask *Ask) *Admission {
	return &Admission{Target: ask.Target, client: ask.Addr, method: ask.Method, settings: g.settings.Load(), gate: g, asked: g.now()}
}

// Admit judges a client's request and keeps it until it may go on. The caller
// calls Done once when the request has ended, whatever the verdict. An error
// means that the client left before: it was not judged or, where the admission admits
// it, it waited for its turn. Then too Done may be called.
func (g *Gate) Admit(ctx context.Context, ask Ask) (*Admission, error) {
	p := g.admission(&ask)
	var err error
	p.Bot, err = g.decide(ctx, p.settings, &ask, p.asked, &p.Verdict)
	if err == nil {
		err = p.Wait(ctx)
	}
	return p, err
}
