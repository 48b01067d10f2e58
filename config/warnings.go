package config

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
)

// warn joins a warning for all that is valid in c, but refuses requests needlessly, does not do
// what it says or soon will not, each a [keyerr.Error] with its whole key.
func (c Config) warn(now time.Time) error {
	return errors.Join(
		keyerr.In("pace", c.Pace.Warnings()),
		keyerr.In("preferences", c.Preferences.Warnings()),
		c.warnUnread(),
		c.warnEmptyDirectory(),
		c.warnExpiring(now),
		c.warnShadowedIdentities(),
		c.warnShadowedOverrides(),
		c.warnForeignClients(),
	)
}

// warnShadowedIdentities joins a warning for each identity after one that matches every
// request.
func (c Config) warnShadowedIdentities() error {
	all := slices.IndexFunc(c.Identities, func(e identity.Entry) bool { return e.Match.IsEmpty() })
	if all < 0 {
		return nil
	}
	var warnings []error
	for i := all + 1; i < len(c.Identities); i++ {
		warnings = append(warnings, keyerr.New(keyerr.Item("identities", i), "it never applies, since identities[%d] (%s) has no conditions and matches every request; move that one to the end",
			all, c.Identities[all].Name))
	}
	return errors.Join(warnings...)
}

// warnShadowedOverrides joins a warning for each override after one that matches every origin
// and does not end.
func (c Config) warnShadowedOverrides() error {
	all := -1
	var warnings []error
	for i, o := range c.Overrides {
		if all >= 0 {
			warnings = append(warnings, keyerr.New(keyerr.Item("overrides", i), "it never applies, since overrides[%d] matches every origin; move that one to the end", all))
		} else if o.Origin.MatchesAll() && o.Expires.Time().IsZero() {
			all = i
		}
	}
	return errors.Join(warnings...)
}

// warnForeignClients joins a warning for each network of an identity whose clients may not use
// the proxy.
func (c Config) warnForeignClients() error {
	var warnings []error
	for i, e := range c.Identities {
		for j, network := range e.Match.Clients {
			if !slices.ContainsFunc(c.Clients.Allow, func(allowed netip.Prefix) bool { return allowed.Overlaps(network) }) {
				warnings = append(warnings, keyerr.New(keyerr.Item(keyerr.Item("identities", i)+".match.clients", j), "no client in %s may use the proxy; add the network to clients.allow", network))
			}
		}
	}
	return errors.Join(warnings...)
}

// warnExpiring joins a warning for each override that has ended, or ends soon.
func (c Config) warnExpiring(now time.Time) error {
	var warnings []error
	for i := range c.Overrides {
		if warning := c.Overrides[i].Warning(now); warning != "" {
			warnings = append(warnings, keyerr.New(keyerr.Item("overrides", i)+".expires", "%s", warning))
		}
	}
	return errors.Join(warnings...)
}

// warnUnread joins a warning for each identity of which something stays undone in tunnels, if
// none is read.
func (c Config) warnUnread() error {
	var unread string
	switch {
	case c.HTTPS.Tunnels.Mode == opaque.Never:
		unread = "https.mode is tunnel"
	case slices.ContainsFunc(c.HTTPS.Tunnels.Passthrough, func(g identity.HostGlob) bool { return g.MatchesAll() }):
		unread = "https.passthrough matches every host"
	default:
		return nil
	}
	refuses := c.Preferences.RefusesResponses()
	var warnings []error
	warn := func(section, name string, id *identity.Identity) {
		if id.Signs() {
			warnings = append(warnings, keyerr.New(section+".sign", "%s, so no request in a tunnel is signed for the identity %s; have tunnels read (https.mode: when_needed), or remove sign", unread, name))
		}
		if refuses && len(id.Purposes) > 0 {
			warnings = append(warnings, keyerr.New(section+".purposes", "%s, so what responses in a tunnel say cannot be heeded, and https.mixed_tunnel decides on all tunnels of the identity %s; have tunnels read (https.mode: when_needed), or write preferences.response: record", unread, name))
		}
	}
	for i := range c.Identities {
		warn(keyerr.Item("identities", i), c.Identities[i].Name, &c.Identities[i].Identity)
	}
	warn("default_identity", identity.DefaultName, &c.DefaultIdentity)
	return errors.Join(warnings...)
}

// warnEmptyDirectory returns a warning if the key directory is to be served and has no keys.
func (c Config) warnEmptyDirectory() error {
	identities := c.GateSettings().Identities
	if c.DirectoryListen == "" || identities.Any((*identity.Identity).Signs) {
		return nil
	}
	return keyerr.New("directory_listen", "no identity signs, so there is no key directory to serve; name keys and an agent in the section sign of an identity, or remove directory_listen")
}
