package gate

import (
	"context"

	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// AdmitTunnel judges a CONNECT to the origin of ask.Target: all that may be asked
// for in the tunnel. Like Admit, but for tunnels that are never read: where
// robots.txt allows only a part of the site, mixed is the verdict. The bot is who
// the CONNECT says. It does not wait: the caller does, by Wait, before the tunnel is
// opened.
func (g *Gate) AdmitTunnel(ctx context.Context, ask Ask, mixed Judgment) (*Passage, error) {
	p := &Passage{Target: ask.Target, ask: ask, rules: g.rules.Load(), gate: g, asked: g.now()}
	var (
		extent robots.Extent
		err    error
	)
	p.Verdict, p.Bot, extent, err = g.decideTunnel(ctx, p.rules, ask, true)
	if err == nil && extent == robots.Part {
		p.Reason, p.Judgment = Unread, mixed
	}
	return p, err
}

// AdmitUnread is AdmitTunnel for tunnels that are read only where that makes a
// difference: nil means that this one must be. It must be where the path decides,
// where headers are rewritten, where requests are spaced or counted, and where the bots inside may
// fare differently: what a CONNECT says of itself is not trusted for that.
func (g *Gate) AdmitUnread(ctx context.Context, ask Ask) (*Passage, error) {
	p := &Passage{Target: ask.Target, ask: ask, rules: g.rules.Load(), gate: g, asked: g.now()}
	bot := p.rules.Identities.Certain(&ask.Asker)
	certain := bot != nil && len(bot.ProductTokens) > 0
	var (
		extent robots.Extent
		err    error
	)
	p.Verdict, p.Bot, extent, err = g.decideTunnel(ctx, p.rules, ask, certain)
	if err != nil {
		return p, err
	}
	is := func(such func(*identity.Identity) bool) bool {
		if certain {
			return such(bot)
		}
		return p.rules.Identities.Any(such)
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

// decideTunnel judges all paths of an origin at once. The verdict is that on any of
// them, unless the extent is Part. certain says that all requests inside come from
// the bot of the ask; else the verdict holds for every bot.
func (g *Gate) decideTunnel(ctx context.Context, rules *Rules, ask Ask, certain bool) (Verdict, *identity.Identity, robots.Extent, error) {
	ask.Target.Path = "/"
	v, id, err := g.decide(ctx, rules, ask)
	if err != nil {
		return v, id, robots.Part, err
	}
	file := v.file
	if file == nil { // the rules of no file have a part in it
		if v.Judgment == Allowed {
			return v, id, robots.Everything, nil
		}
		return v, id, robots.Nothing, nil
	}
	switch {
	case !certain:
		return v, id, file.Extent(), nil
	case v.group == nil:
		return v, id, robots.Everything, nil
	}
	return v, id, v.group.Extent(), nil
}
