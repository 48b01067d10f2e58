package gate

import (
	"context"
	"errors"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/preference"
)

// ErrNotUniform means that the requests in a tunnel may get different verdicts, so the tunnel
// must be read and each of them judged.
var ErrNotUniform = errors.New("the requests in this tunnel must be judged one by one")

// AdmitOpaque judges a CONNECT to the origin of ask.Target whose tunnel is never read. One
// verdict holds for all requests inside: mixed, if robots.txt allows only a part of the
// site, or a response inside might be refused. The bot is the one that the CONNECT names. Otherwise it is like [Gate.Admit].
func (g *Gate) AdmitOpaque(ctx context.Context, ask Ask, mixed decision.Judgment) (*Admission, error) {
	a := g.newAdmission(&ask)
	extent, err := a.decideTunnel(ctx, ask, true)
	if err != nil {
		return nil, err
	}
	switch {
	case extent == robots.Part:
		a.mix(mixed)
	case a.Judgment != decision.Allowed:
	case a.settings.Preferences.RefusesResponses() && a.heedsResponses():
		a.mix(mixed)
		a.preferred = preference.Response
	case a.lenient && a.extentOfUse() == robots.Part:
		a.forgetPreference()
		a.WouldRefuse = mixed != decision.Allowed
	}
	return a, nil
}

// AdmitIfUniform judges a CONNECT whose tunnel is read only if that makes a difference. If it
// does, the error is [ErrNotUniform]. It does if the path decides, if headers are rewritten,
// if requests are signed, spaced or counted, if responses may say something about their use to
// a bot that declares purposes, and if the bots inside may get different
// verdicts: what a CONNECT says of itself proves nothing about them. Otherwise it is like
// [Gate.Admit].
func (g *Gate) AdmitIfUniform(ctx context.Context, ask Ask) (*Admission, error) {
	a := g.newAdmission(&ask)
	bot := a.settings.Identities.IdentifyTunnel(&ask.Asker)
	certain := bot != nil && len(bot.ProductTokens) > 0
	extent, err := a.decideTunnel(ctx, ask, certain)
	if err != nil {
		return nil, err
	}
	is := func(such func(*identity.Identity) bool) bool {
		if certain {
			return such(bot)
		}
		return a.settings.Identities.Any(such)
	}
	switch {
	case extent == robots.Part,
		a.Admits() && a.paced(certain),
		is((*identity.Identity).Rewrites),
		a.Admits() && is((*identity.Identity).Signs),
		certain && a.Admits() && a.heedsInside(),
		!certain && extent != robots.Nothing && a.heeded != 0 && is((*identity.Identity).Declares),
		!certain && is(func(id *identity.Identity) bool { return id.Mode != "" && id.Mode != identity.Enforce }):
		return nil, ErrNotUniform
	}
	return a, nil
}

// Misdirected records that the requests in an opaque tunnel are for another server than the
// one that was judged. The admission then refuses them, unless the identity's mode is off.
func (a *Admission) Misdirected() {
	if a.mode != identity.Off {
		a.forgetPreference()
		a.Reason, a.Judgment, a.Rule, a.Line = decision.OpaqueTunnel, decision.Disallowed, "", 0
		a.OverrideReason, a.OverrideBy = "", ""
	}
}

// decideTunnel judges all paths of an origin at once. Unless the extent is Part, the verdict
// holds for each of them. certain means that all requests inside come from the bot of the
// ask. Otherwise the extent is that of the file for every bot.
func (a *Admission) decideTunnel(ctx context.Context, ask Ask, certain bool) (robots.Extent, error) {
	ask.Target.Path = "/"
	var err error
	a.Bot, err = a.gate.decide(ctx, a.settings, &ask, a.asked, &a.Verdict)
	extent := robots.Everything // of the rules
	switch {
	case err != nil:
		return robots.Part, err
	case a.file == nil && a.Judgment != decision.Allowed && a.Reason != decision.ByPreference: // no rules were read for it
		extent = robots.Nothing
	case a.file != nil && !certain:
		extent = a.file.Extent()
	case a.group != nil:
		extent = a.group.Extent()
	}
	if !certain || a.lenient || extent == robots.Nothing {
		return extent, nil
	}
	if use := a.extentOfUse(); use != robots.Everything {
		extent = use
	}
	return extent, nil
}

// heedsResponses reports whether what a response says about its use concerns the bot.
func (v *Verdict) heedsResponses() bool {
	return v.declared != nil && v.heeded.Has(preference.Response)
}

// heedsInside reports whether what concerns the bot may differ for the requests in a tunnel.
func (v *Verdict) heedsInside() bool {
	return v.heedsResponses() || v.extentOfUse() == robots.Part
}

// mix judges a tunnel that is not read although the requests inside may get different verdicts.
func (v *Verdict) mix(mixed decision.Judgment) {
	v.forgetPreference()
	v.Reason, v.Judgment = decision.OpaqueTunnel, mixed
}

// forgetPreference forgets a preference that does not concern all requests in a tunnel.
func (v *Verdict) forgetPreference() {
	v.Preference, v.PreferenceURL, v.PreferenceLine, v.preferred, v.WouldRefuse = "", "", 0, "", false
}

// paced reports whether requests in a tunnel must be spaced or counted at any time of the day:
// those of the admission's bot if it is certain, else those of any bot.
func (a *Admission) paced(certain bool) bool {
	if a.gate.pacer == nil || a.mode == identity.Off {
		return false
	}
	stated := a.group != nil && a.group.StatesDelay()
	if !certain {
		stated = a.file != nil && a.file.StatesDelay()
	}
	return a.gate.pacer.Paces(stated)
}
