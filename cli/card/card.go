// Package card makes the Signature Agent Card of a bot from its configuration. [Of] returns
// the [Card] of an identity that signs, and the reasons if the card can't claim compliance
// with RFC 9309.
package card

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/fetch"
)

// A Card is a Signature Agent Card, as draft-meunier-webbotauth-registry describes it after
// its version -03.
type Card struct {
	ClientName string     `json:"client_name,omitempty"`
	ClientURI  string     `json:"client_uri,omitempty"`
	Contacts   []string   `json:"contacts,omitempty"`
	JWKSURI    string     `json:"jwks_uri"`
	WebBotAuth webBotAuth `json:"web_bot_auth"`
}

type webBotAuth struct {
	ExpectedUserAgent string   `json:"expected-user-agent,omitempty"`
	ProductToken      string   `json:"rfc9309-product-token,omitempty"`
	Compliance        bool     `json:"rfc9309-compliance"`
	Purpose           string   `json:"purpose,omitempty"`
	RateControl       string   `json:"rate-control,omitempty"`
	KnownURLs         []string `json:"known-urls"`
}

// aboutBot finds the page about a bot in its User-Agent.
var aboutBot = regexp.MustCompile(`\+(https?://[^\s;,()]+)`)

// Of returns the card of an identity that signs: it is loaded and has a name and a key. If the
// card does not claim compliance with RFC 9309, departures says why, as text that may hold
// what the configuration holds.
func Of(cfg config.Config, name string, id *identity.Identity) (c Card, departures []string) {
	departures = departuresOf(cfg, id)
	c = Card{
		JWKSURI: id.Agent().String() + sign.DirectoryPath,
		WebBotAuth: webBotAuth{
			ExpectedUserAgent: id.UserAgent,
			Compliance:        len(departures) == 0,
			Purpose:           purposeOf(id),
			RateControl:       rateControl(cfg),
			KnownURLs:         []string{"/robots.txt"},
		},
	}
	if name != identity.DefaultName {
		c.ClientName = name
	}
	if len(id.ProductTokens) > 0 {
		c.ClientName, c.WebBotAuth.ProductToken = id.ProductTokens[0], id.ProductTokens[0]
	}
	if about := aboutBot.FindStringSubmatch(id.UserAgent); about != nil {
		c.ClientURI = about[1]
	}
	if from, err := mail.ParseAddress(id.From); err == nil {
		c.Contacts = []string{"mailto:" + from.Address}
	}
	return c, departures
}

// JSON is the card as indented JSON that is safe to show on a terminal.
func (c Card) JSON() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(c); err != nil {
		return nil, err
	}
	return printable.JSON(text.Bytes()), nil
}

// purposeOf is what the bot declares to do with pages, in the words of robots.txt.
func purposeOf(id *identity.Identity) string {
	var purposes []string
	for _, p := range id.Purposes {
		purposes = append(purposes, string(p))
	}
	return strings.Join(purposes, ", ")
}

// rateControl says by what a site can slow the bot down.
func rateControl(cfg config.Config) string {
	var ways []string
	if cfg.Pace.CrawlDelay {
		ways = append(ways, fmt.Sprintf("Crawl-delay in robots.txt, up to %v", cfg.Pace.MaxCrawlDelay))
	}
	if cfg.Pace.RetryAfter {
		ways = append(ways, "429 and 503 with Retry-After")
	}
	return strings.Join(ways, "; ")
}

// departuresOf says why the proxy may send requests of an identity that the site's robots.txt
// disallows. Without a reason, the bot complies with RFC 9309.
func departuresOf(cfg config.Config, id *identity.Identity) (reasons []string) {
	if id.Mode != identity.Enforce && id.Mode != "" {
		reasons = append(reasons, fmt.Sprintf("the identity is in mode %s", id.Mode))
	}
	for i, o := range cfg.Overrides {
		if o.Verdict != override.Disallow {
			reasons = append(reasons, fmt.Sprintf("overrides[%d] replaces what sites say; correct the card by hand if those sites are your own", i))
		}
	}
	if cfg.HTTPS.Tunnels.Mixed == opaque.AllowMixed {
		reasons = append(reasons, "https.mixed_tunnel is allow")
	}
	for status, meaning := range cfg.Robots.Statuses {
		if status >= 500 && meaning == fetch.MeansAllow {
			reasons = append(reasons, fmt.Sprintf("robots.statuses takes %d as no restrictions", status))
		}
	}
	if cfg.Robots.Soft5xx {
		reasons = append(reasons, "robots.soft_5xx may take a server error as no restrictions")
	}
	slices.Sort(reasons)
	return reasons
}
