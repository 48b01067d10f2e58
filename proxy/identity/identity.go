// Package identity says which bot is asking, by which product tokens robots.txt knows it, and
// which User-Agent and From it sends.
//
// A [Table] holds the operator's bots, each an [Entry] with the condition by which its requests
// are recognised, and gives the [Identity] of a request. It also has the globs over hosts and
// origins that the configuration is written with.
package identity

import (
	"errors"
	"net/http"
	"strings"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
)

// Identity is one bot as the operator describes it. In a configuration it is
// the section "default_identity".
type Identity struct {
	// ProductTokens name the bot to robots.txt (RFC 9309 2.2.1), the most specific first.
	// Without any, it is the product token of the request's own User-Agent.
	ProductTokens []string `yaml:"product_tokens"`
	// UserAgent is sent upstream instead of the client's; "": the client's is sent, except
	// in fetches of robots.txt, which carry nothing that clients say of themselves.
	UserAgent string `yaml:"user_agent"`
	// From is like UserAgent.
	From string `yaml:"from"`
	Mode Mode   `yaml:"mode"`
}

// Default is the default identity of a configuration that says nothing.
func Default() Identity { return Identity{Mode: Enforce} }

// Validate joins all that is wrong with id, each fault a [keyerr.Error].
func (id Identity) Validate() error {
	var errs []error
	for i, token := range id.ProductTokens {
		if !isToken(token) {
			errs = append(errs, keyerr.New(keyerr.Item("product_tokens", i), "%q is no product token; write the bare name, as in ExampleBot, without version, spaces or comment", token))
		}
	}
	if !isFieldValue(id.UserAgent) {
		errs = append(errs, keyerr.New("user_agent", "it holds a line break or another control character; take that out"))
	}
	if !isFieldValue(id.From) {
		errs = append(errs, keyerr.New("from", "it holds a line break or another control character; take that out"))
	}
	return errors.Join(errs...)
}

// isToken reports whether s is a product token as robots.txt files spell them. That allows more
// characters than RFC 9309 2.2.1, but no version, space or comment.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/:;#,"()<>@[]{}\=?`, r)
	})
}

func isFieldValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// Tokens are the product tokens by which robots.txt is read for a request with this User-Agent.
// There is at least one; "*" stands for a bot without a name.
func (id *Identity) Tokens(userAgent string) []string {
	if len(id.ProductTokens) > 0 {
		return id.ProductTokens
	}
	return []string{productToken(userAgent)}
}

// TokenOf is the product token of agent, which may be a bare token or a whole User-Agent.
func TokenOf(agent string) string {
	if isToken(agent) {
		return agent
	}
	return productToken(agent)
}

// Rewrites reports whether Rewrite changes anything at all.
func (id *Identity) Rewrites() bool { return id.UserAgent != "" || id.From != "" }

// Rewrite gives a request's header the bot's User-Agent and From.
func (id *Identity) Rewrite(h http.Header) {
	if id.UserAgent != "" {
		h.Set("User-Agent", id.UserAgent)
	}
	if id.From != "" {
		h.Set("From", id.From)
	}
}

// Mode is what follows when robots.txt disallows a request. The zero value means [Enforce].
type Mode string

const (
	// Enforce refuses it.
	Enforce Mode = "enforce"
	// Report lets it through, and counts and logs it as disallowed.
	Report Mode = "report"
	// Off does not ask robots.txt at all.
	Off Mode = "off"
)

// UnmarshalText reads one of the words above.
func (m *Mode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, Enforce, Report, Off)
}
