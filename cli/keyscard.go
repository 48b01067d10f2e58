package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/fetch"
)

func keysCardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "card",
		Short: "Print the Signature Agent Card of a bot",
		Long: `Print the Signature Agent Card of an identity that signs, as JSON
(draft-meunier-webbotauth-registry): who the bot is, where its keys are, which product
token it obeys, what it fetches pages for, and how its rate can be controlled. It has
what the configuration says and nothing else: add what only you know, such as trigger,
and client_id once you publish the card. rfc9309-compliance is true if the proxy refuses
all that robots.txt disallows to this bot; if not, the reasons are on standard error.`,
		Example: `  robotsproxy keys card --config robotsproxy.yaml
  robotsproxy keys card --config robotsproxy.yaml --identity image-crawler > card.json`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd)
	wanted := cmd.Flags().String("identity", "", "the identity; needed if several sign")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default())
		if err != nil {
			return err
		}
		identities, err := cfg.GateSettings().Identities.Load()
		if err != nil {
			return err
		}
		name, id, err := chooseSigning(identities.All(), *wanted)
		if err != nil {
			return exit{exitUsage, err}
		}
		departures := departuresOf(cfg, id)
		for _, departure := range departures {
			fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: rfc9309-compliance is false: %s\n", printable.Line(departure))
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(cardOf(cfg, name, id, len(departures) == 0)); err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(printable.JSON(text.Bytes()))
		return err
	})
	return cmd
}

// A card is a Signature Agent Card, as draft-meunier-webbotauth-registry describes it after
// its version -03.
type card struct {
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

// cardOf is the card of an identity that signs.
func cardOf(cfg config.Config, name string, id *identity.Identity, complies bool) card {
	c := card{
		JWKSURI: id.Agent().String() + sign.DirectoryPath,
		WebBotAuth: webBotAuth{
			ExpectedUserAgent: id.UserAgent,
			Compliance:        complies,
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
	return c
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
		if o.Verdict != gate.Disallow {
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
