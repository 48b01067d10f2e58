package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
	"robotsproxy/robots/urlpath"
)

// Preferences is the section "preferences" of a configuration: what comes of what sites say
// about the use of their pages. It concerns only identities that declare purposes. The zero
// value heeds no source.
type Preferences struct {
	Mode     identity.Mode       `yaml:"mode"`
	Sources  []preference.Source `yaml:"sources"`
	Response ResponseAction      `yaml:"response"`
}

// DefaultPreferences is the section of an empty configuration.
func DefaultPreferences() Preferences {
	return Preferences{
		Mode:     identity.Report,
		Sources:  []preference.Source{preference.ContentSignal, preference.ContentUsage, preference.TDMRep, preference.Response},
		Response: Record,
	}
}

// ResponseAction says what becomes of a response whose own fields refuse the declared use. The
// zero value means [Record].
type ResponseAction string

const (
	// Record hands the response over, and writes the preference into the log.
	Record ResponseAction = "record"
	// Refuse answers 403 instead, in mode enforce.
	Refuse ResponseAction = "refuse"
)

// UnmarshalText reads one of the words above.
func (r *ResponseAction) UnmarshalText(text []byte) error {
	return enum.Unmarshal(r, text, Record, Refuse)
}

// Validate joins all that is wrong with p, each fault a [keyerr.Error].
func (p Preferences) Validate() error {
	var errs []error
	for i, source := range p.Sources {
		if slices.Contains(p.Sources[:i], source) {
			errs = append(errs, keyerr.New(keyerr.Item("sources", i), "%s is there twice; remove one", source))
		}
	}
	return errors.Join(errs...)
}

// Warnings joins what is valid but does not do what it says, each a [keyerr.Error].
func (p Preferences) Warnings() error {
	var errs []error
	if p.Response == Refuse && p.Mode != identity.Enforce {
		errs = append(errs, keyerr.New("response", "no response is refused in mode %s; write mode: enforce, or response: record", p.Mode))
	}
	if p.Response == Refuse && !slices.Contains(p.Sources, preference.Response) {
		errs = append(errs, keyerr.New("response", "no response is refused, because sources does not name response; add it, or write response: record"))
	}
	return errors.Join(errs...)
}

// RefusesResponses reports whether a response may be refused for its own fields.
func (p *Preferences) RefusesResponses() bool {
	return p.Mode == identity.Enforce && p.Response == Refuse && slices.Contains(p.Sources, preference.Response)
}

// heeded are the sources that count.
func (p *Preferences) heeded() preference.Sources {
	if p.Mode == identity.Off {
		return 0
	}
	return preference.SourcesOf(p.Sources...)
}

// ofRobotsTxt are the sources that are lines of a robots.txt.
var ofRobotsTxt = preference.SourcesOf(preference.ContentSignal, preference.ContentUsage)

// use is what the bot of an ask declares to do with pages.
func (ask *Ask) use(id *identity.Identity) preference.Use {
	use := id.Use()
	if ask.Use.Purposes != 0 {
		use.Purposes = ask.Use.Purposes
	}
	if ask.Use.Content != "" {
		use.Content = ask.Use.Content
	}
	return use
}

// declaration is what a bot declares to do with pages.
type declaration struct {
	use    preference.Use
	tokens []string // the bot's product tokens
}

// declare notes what the bot declares, unless no preference can concern the ask.
func (v *Verdict) declare(settings *Settings, id *identity.Identity, ask *Ask, tokens []string) {
	v.heeded, v.lenient = settings.heeded, settings.Preferences.Mode == identity.Report
	if use := ask.use(id); use.Purposes != 0 && id.Mode != identity.Off && !v.robotsTxt {
		v.declared = &declaration{use, slices.Clone(tokens)} // kept as they are, tokens would cost every bot an allocation
	}
}

// heed judges a path that the rules allow by what the file says about use.
func (v *Verdict) heed(path string) {
	said := v.file.Preferences(v.group)
	refusal, refused := said.Refusal(path, v.declared.use, v.heeded)
	served := ""
	if v.strict && !refused {
		served = urlpath.AsServed(path)
		refusal, refused = said.Refusal(served, v.declared.use, v.heeded)
	}
	if !refused {
		return
	}
	v.prefer(refusal)
	v.PreferenceURL = cmp.Or(v.ownFile(), v.RobotsURL)
	if !v.lenient {
		v.refuseUse()
		v.served = served
	}
}

// prefer notes what refuses the declared use. In mode report it would refuse the request.
func (v *Verdict) prefer(r preference.Refusal) {
	v.Preference, v.PreferenceLine, v.preferred = printable.Cut(r.String(), decision.MaxText), r.Line, r.Source
	v.WouldRefuse = v.lenient
}

// refuseUse refuses the request because of its preference.
func (v *Verdict) refuseUse() {
	v.Judgment, v.Reason, v.Rule, v.Line, v.served = decision.Disallowed, decision.ByPreference, "", 0, ""
	if v.PreferenceLine > 0 && v.preferred != preference.TDMRep { // a line of robots.txt
		v.Rule, v.Line = v.Preference, v.PreferenceLine
	}
}

// extentOfUse says how far the preferences of the site's files let the bot go.
func (v *Verdict) extentOfUse() robots.Extent {
	if v.declared == nil {
		return robots.Everything
	}
	var said *preference.Set
	if v.file != nil {
		said = v.file.Preferences(v.group)
	}
	mined := v.extentOfTDMRep()
	switch {
	case said.RefusesAll(v.declared.use, v.heeded), mined == robots.Nothing:
		return robots.Nothing
	case said.RefusesNone(v.declared.use, v.heeded) && mined == robots.Everything:
		return robots.Everything
	}
	return robots.Part
}

// extentOfTDMRep says how far the site's tdmrep.json lets the bot go.
func (v *Verdict) extentOfTDMRep() robots.Extent {
	switch p := v.tdmrep; {
	case p == nil, p.AllowAll, p.Outcome == policy.Rules && p.TDMRep.Len() == 0:
		return robots.Everything
	case p.Outcome != policy.Rules:
		return robots.Nothing
	case p.TDMRep.Len() == 1:
		if rule, _ := p.TDMRep.Match("/"); rule.Reserved && (rule.Location == "" || rule.Location == "/") {
			return robots.Nothing
		}
	}
	return robots.Part
}

// heedsTDMRep reports whether the origin's tdmrep.json concerns the bot.
func (v *Verdict) heedsTDMRep() bool {
	return v.declared != nil && v.declared.use.Mines() && v.heeded.Has(preference.TDMRep)
}

// unreachable is what stands for the preference of a tdmrep.json that cannot be had.
const unreachable = "unreachable"

// heedTDMRep judges a URL that robots.txt allows by the origin's tdmrep.json, which by asks for.
// That file itself may always be read. An error means that nothing could be decided.
func (g *Gate) heedTDMRep(ctx context.Context, target robots.Target, by *keeper.Sender, v *Verdict) error {
	if target.Path == policy.TDMRep.Path() {
		return nil
	}
	p, err := g.TDMRep.Policy(ctx, target.Origin, *by)
	if err != nil {
		v.Judgment, v.Reason, v.Cause, v.mode = decision.Disallowed, decision.ByPreference, "its tdmrep.json was not waited for", identity.Enforce
		return fmt.Errorf("asking what %s reserves: %w", v.Origin, err)
	}
	v.tdmrep = p
	refusal := preference.Refusal{Source: preference.TDMRep}
	switch {
	case p.Outcome == policy.Rules:
		rule, found := p.TDMRep.Match(target.Path)
		if v.strict && (!found || !rule.Reserved) {
			if served, matches := p.TDMRep.Match(urlpath.AsServed(target.Path)); matches && served.Reserved {
				rule, found = served, true
			}
		}
		if !found || !rule.Reserved {
			return nil
		}
		refusal.Path, refusal.Preference, refusal.Line = rule.Location, "tdm-reservation: 1", rule.Line
	case p.AllowAll:
		return nil
	default:
		refusal.Preference = unreachable
		v.Cause = p.Cause
	}
	v.prefer(refusal)
	v.PreferenceURL = v.Origin + policy.TDMRep.Path()
	if !v.lenient {
		v.refuseUse()
	}
	return nil
}

// HeedResponse judges a response by what its own fields say about the declared use, and reports
// whether the client must not have it; then the admission refuses. It looks at responses that
// carry a page or stand for one that the client has: 2xx, 304 and 101. Redirects and errors
// pass, and trailers are not looked at: they come too late.
func (a *Admission) HeedResponse(status int, header http.Header) (refused bool) {
	page := status/100 == 2 || status == http.StatusNotModified || status == http.StatusSwitchingProtocols
	if !page || !a.heedsResponses() || a.Judgment != decision.Allowed {
		return false
	}
	if reserved, stated := preference.Reservation(header); stated && !reserved && a.preferred == preference.TDMRep {
		a.forgetPreference() // what the page itself says goes before the file
	}
	if a.Preference != "" {
		return false
	}
	refusal, found := preference.OfResponse(header, a.declared.tokens, a.declared.use)
	if !found {
		return false
	}
	a.prefer(refusal)
	if a.settings.Preferences.RefusesResponses() {
		a.refuseUse()
	}
	return !a.Admits()
}
