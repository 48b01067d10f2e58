package gate

import (
	"context"

	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// AdmitOpaque judges a CONNECT to the origin of ask.Target: all that may be asked
// for in the tunnel. Like Admit, but for tunnels that are never read: where
// robots.txt allows only a part of the site, mixed is the verdict. The bot is who
// the CONNECT says. It does not wait: the caller does, by Wait, before the tunnel is
// opened.
func (g *Gate) AdmitOpaque(ctx context.Context, ask Ask, mixed Judgment) (*Admission, error) {
	p := g.admission(&ask)
	extent, err := p.decideTunnel(ctx, ask, true)
	if err == nil && extent == robots.Part {
		p.Reason, p.Judgment = OpaqueTunnel, mixed
	}
	return p, err
}

// AdmitIfUniform is AdmitOpaque for tunnels that are read only where that makes a
// difference: nil means that this one must be. It must be where the path decides,
// where headers are rewritten, where requests are spaced or counted, and where the bots inside may
// fare differently: what a CONNECT says of itself is not trusted for that.
func (g *Gate) AdmitIfUniform(ctx context.Context, ask Ask) (*Admission, error) {
	p := g.admission(&ask)
	bot := p.settings.Identities.IdentifyTunnel(&ask.Asker)
	certain := bot != nil && len(bot.ProductTokens) > 0
	extent, err := p.decideTunnel(ctx, ask, certain)
	if err != nil {
		return p, err
	}
	is := func(such func(*identity.Identity) bool) bool {
		if certain {
			return such(bot)
		}
		return p.settings.Identities.Any(such)
	}
	switch {
	case extent == robots.Part,
		p.Admits() && p.paced(certain),
		is((*identity.Identity).Rewrites),
		!certain && is(func(id *identity.Identity) bool { return id.Mode != "" && id.Mode != identity.Enforce }):
		return nil, nil
	}
	return p, nil
}

// Misdirected tells that what is asked for in an unread tunnel is for another server than
// the one that was judged. Then the admission is disallowed, unless nothing is refused to
// its bot.
func (p *Admission) Misdirected() {
	if p.mode != identity.Off {
		p.Reason, p.Judgment, p.Rule, p.Line = OpaqueTunnel, Disallowed, "", 0
	}
}

// Discard ends an admission that came to nothing, since its tunnel is read after all: it is
// neither counted nor logged. It stands in for Done.
func (p *Admission) Discard() { p.permit.Release() }

// decideTunnel judges all paths of an origin at once. The verdict is that on any of
// them, unless the extent is Part. certain says that all requests inside come from
// the bot of the ask; else the verdict holds for every bot.
func (p *Admission) decideTunnel(ctx context.Context, ask Ask, certain bool) (robots.Extent, error) {
	ask.Target.Path = "/"
	var err error
	p.Bot, err = p.gate.decide(ctx, p.settings, &ask, p.asked, &p.Verdict)
	switch {
	case err != nil:
		return robots.Part, err
	case p.file == nil && p.Judgment == Allowed: // the rules of no file have a part in it
		return robots.Everything, nil
	case p.file == nil:
		return robots.Nothing, nil
	case !certain:
		return p.file.Extent(), nil
	case p.group == nil:
		return robots.Everything, nil
	}
	return p.group.Extent(), nil
}
