// Package gate judges requests: may this client have that URL? It is the only place where
// that is decided. Every door of the proxy, the check command and the API ask here.
//
// [Gate.Decide] answers with a [Verdict] and does no more. A door calls [Gate.Admit], whose
// [Admission] also makes the request wait for its turn and, at its end, counts and logs it.
package gate

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/pace"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// Policies returns what an origin allows now. If it has to fetch a robots.txt for that, it
// fetches it on behalf of by. An error means that there is no answer: the context has
// ended, or the source is closed.
type Policies interface {
	Policy(ctx context.Context, origin robots.Origin, by keeper.Sender) (*policy.Policy, error)
}

// PoliciesFunc is a function that is a [Policies].
type PoliciesFunc func(ctx context.Context, origin robots.Origin, by keeper.Sender) (*policy.Policy, error)

// Policy calls f.
func (f PoliciesFunc) Policy(ctx context.Context, origin robots.Origin, by keeper.Sender) (*policy.Policy, error) {
	return f(ctx, origin, by)
}

// OnePolicy returns [Policies] that are the same at every origin.
func OnePolicy(p *policy.Policy) Policies {
	return PoliciesFunc(func(context.Context, robots.Origin, keeper.Sender) (*policy.Policy, error) { return p, nil })
}

// Gate judges requests by the settings and policies that hold at that moment. Its
// methods are safe for concurrent use.
type Gate struct {
	// CDN returns the network that an origin is known to be behind, without waiting; "" for
	// none. Requests for which no policy is asked are signed by it. It must be set before the
	// Gate is used; nil: no network is known.
	CDN func(robots.Origin) string

	// TDMRep has the policies of kind [policy.TDMRep], which the Gate asks for where they concern
	// a bot. It must be set before the Gate is used; nil: none is asked for.
	TDMRep Policies

	settings atomic.Pointer[Settings]
	policies Policies
	pacer    *pace.Pacer // nil: nothing is paced
	recorder *decision.Recorder
	log      zerolog.Logger
	now      func() time.Time
}

// New returns a Gate. It reads the files that the settings name. Requests take turns by pacer,
// unless it is nil. Decisions are written to log. If metrics is not nil, the Gate registers
// its metrics there.
func New(settings Settings, policies Policies, pacer *pace.Pacer, log zerolog.Logger, metrics prometheus.Registerer) (*Gate, error) {
	loaded, err := settings.load()
	if err != nil {
		return nil, err
	}
	g := &Gate{policies: policies, pacer: pacer, recorder: decision.NewRecorder(log, metrics), log: log, now: time.Now}
	g.use(loaded)
	return g, nil
}

// Watch calls do with every decision from now on, until stop is called; see
// [decision.Recorder.Watch].
func (g *Gate) Watch(do func(decision.Decision)) (stop func()) { return g.recorder.Watch(do) }

// SetSettings replaces the settings for all requests that are judged from now on. It reads
// the files that they name. After an error the old settings still hold.
func (g *Gate) SetSettings(settings Settings) error {
	loaded, err := settings.load()
	if err == nil {
		g.use(loaded)
	}
	return err
}

func (g *Gate) use(settings *Settings) {
	g.recorder.Initialize(settings.Identities.All(), settings.Preferences.Sources)
	g.settings.Store(settings)
}

// Ask is the question put to the gate: may this client have that URL?
type Ask struct {
	Target robots.Target

	identity.Asker
	// Identity, Agents and Use are for questions on a bot's behalf. Identity names the identity
	// to judge as; "" means that of the asker. Agents replace its product tokens.
	Identity string
	Agents   []string
	// Use replaces what the identity declares: purposes if it names any, and the use of
	// content if it names one.
	Use preference.Use

	Method string
	Door   decision.Door // by which the request came
}

// UnknownIdentityError says that an ask names an identity that is not configured.
type UnknownIdentityError struct {
	Name  string
	Known []string
}

func (u *UnknownIdentityError) Error() string {
	return fmt.Sprintf("there is no identity %q; the configuration has %s", u.Name, strings.Join(u.Known, ", "))
}

// Decide judges an ask. An error means that nothing could be decided. The verdict then
// refuses, and has what is known. The error is an [*UnknownIdentityError] if the ask names
// one.
func (g *Gate) Decide(ctx context.Context, ask Ask) (Verdict, error) {
	var v Verdict
	_, err := g.decide(ctx, g.settings.Load(), &ask, g.now(), &v)
	if g.pacer != nil && err == nil && v.paces() {
		v.Hold = g.pacer.Held(v.paceRequest())
	}
	return v, err
}

// decide fills v, which must be zero, and returns the identity of the asker. It fills a
// pointer instead of returning a Verdict, to use little stack: it runs deep in the small
// stack of a request's goroutine, and to grow that costs more than all else here.
func (g *Gate) decide(ctx context.Context, settings *Settings, ask *Ask, now time.Time, v *Verdict) (*identity.Identity, error) {
	id, name := settings.Identities.Identify(&ask.Asker)
	if ask.Identity != "" {
		if id, name = settings.Identities.Named(ask.Identity), ask.Identity; id == nil {
			return nil, settings.unknown(name)
		}
	}
	userAgent, tokens := ask.UserAgent(), ask.Agents
	if len(tokens) == 0 {
		tokens = id.Tokens(userAgent)
	}
	robotsURL := ask.Target.Origin.RobotsURL()
	v.Origin = strings.TrimSuffix(robotsURL, "/robots.txt") // both share one string in memory
	v.URL = v.Origin + ask.Target.Path
	v.RobotsURL = robotsURL
	v.Agent, v.Identity = tokens[0], name
	v.Judgment = decision.Disallowed
	v.mode, v.strict, v.robotsTxt = id.Mode, settings.StrictPaths, ask.Target.IsRobotsTxt()
	v.at = time.Duration(now.Unix()%secondsPerDay) * time.Second
	v.declare(settings, id, ask, tokens)
	if o := settings.Overrides.For(v.Origin, now); o != nil {
		v.applyOverride(o, tokens, ask.Target.Path)
		return id, nil
	}
	switch {
	case id.Mode == identity.Off:
		v.Judgment, v.Reason = decision.Allowed, decision.Exempt
		return id, nil
	case v.robotsTxt:
		v.Judgment, v.Reason = decision.Allowed, decision.RobotsTxt
		return id, nil
	}
	by := keeper.Sender{
		Identity: name, UserAgent: id.UserAgent, From: id.From,
		Client: ask.Addr, ClientAgent: userAgent, Sign: id.FetchSigner(),
	}
	p, err := g.policies.Policy(ctx, ask.Target.Origin, by)
	if err != nil {
		v.Reason, v.Cause, v.mode = decision.Unreachable, "it was not waited for", identity.Enforce
		return id, fmt.Errorf("asking what %s allows: %w", v.Origin, err)
	}
	v.apply(p, tokens, ask.Target.Path)
	if g.TDMRep != nil && v.Judgment == decision.Allowed && v.Preference == "" && v.heedsTDMRep() {
		err = g.heedTDMRep(ctx, ask.Target, &by, v)
	}
	return id, err
}

const secondsPerDay = 24 * 60 * 60

// Identify returns the identity as which a request would be judged, and its name. Callers must
// not change it.
func (g *Gate) Identify(a identity.Asker) (*identity.Identity, string) {
	return g.settings.Load().Identities.Identify(&a)
}

// Identities yields the present identities with their names, in the order in which they are
// tried; the default comes last. Callers must not change them.
func (g *Gate) Identities() iter.Seq2[string, *identity.Identity] {
	return g.settings.Load().Identities.All()
}

// Overrides returns the present overrides, also those that have ended. Callers must not change
// them.
func (g *Gate) Overrides() override.List { return g.settings.Load().Overrides }

// WarnOfOverrides logs the warnings of all overrides once a day, first in a day, until ctx
// ends.
func (g *Gate) WarnOfOverrides(ctx context.Context) {
	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-daily.C:
		}
		for _, o := range g.Overrides() {
			if warning := o.Warning(g.now()); warning != "" {
				g.log.Warn().Msg(warning)
			}
		}
	}
}
