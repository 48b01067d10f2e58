// Package identity says which bot sends a request, which product tokens robots.txt knows it by,
// which User-Agent and From it sends, what it does with pages, and with which keys it signs.
//
// A [Table] has the operator's bots, each an [Entry] with the condition that recognises its
// requests, and finds the [Identity] of a request. The package also has the globs over hosts
// and origins that the configuration uses.
package identity

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/robots/preference"
)

// Identity is one bot as the operator describes it. It is the section "default_identity" of a
// configuration, and a part of each item of "identities".
type Identity struct {
	// ProductTokens are the bot's names in robots.txt (RFC 9309 2.2.1), the most specific
	// first. If there are none, the request's own User-Agent gives the product token.
	ProductTokens []string `yaml:"product_tokens"`
	// UserAgent is sent upstream instead of the client's User-Agent. If it is "", the
	// client's is sent, except in fetches of robots.txt.
	UserAgent string `yaml:"user_agent"`
	// From is the same for the From field.
	From string `yaml:"from"`
	Mode Mode   `yaml:"mode"`
	// Purposes and ContentUse are what the bot declares to do with pages. Without purposes,
	// no preference of a site concerns it.
	Purposes   []preference.Purpose  `yaml:"purposes"`
	ContentUse preference.ContentUse `yaml:"content_use"`
	Signing    Signing               `yaml:"sign"`

	signer *signer // nil unless Signing is loaded and signs
}

// Default returns the default identity of an empty configuration.
func Default() Identity { return Identity{Mode: Enforce, Signing: DefaultSigning()} }

// Validate joins all that is wrong with id, each fault a [keyerr.Error].
func (id Identity) Validate() error {
	var errs []error
	for i, token := range id.ProductTokens {
		if !isToken(token) {
			errs = append(errs, keyerr.New(keyerr.Item("product_tokens", i), "%q is not a product token; write the bare name, for example ExampleBot, without version, spaces or comment", token))
		}
	}
	if !isFieldValue(id.UserAgent) {
		errs = append(errs, keyerr.New("user_agent", "it holds a line break or another control character; remove it"))
	}
	if !isFieldValue(id.From) {
		errs = append(errs, keyerr.New("from", "it holds a line break or another control character; remove it"))
	}
	for i, purpose := range id.Purposes {
		if slices.Contains(id.Purposes[:i], purpose) {
			errs = append(errs, keyerr.New(keyerr.Item("purposes", i), "%s is there twice; remove one", purpose))
		}
	}
	if id.ContentUse != "" && len(id.Purposes) == 0 {
		errs = append(errs, keyerr.New("content_use", "it counts only with purposes; declare purposes too, or remove it"))
	}
	return errors.Join(append(errs, keyerr.In("sign", id.Signing.Validate()))...)
}

// Use is what the bot declares to do with pages.
func (id *Identity) Use() preference.Use {
	return preference.Use{Purposes: preference.PurposesOf(id.Purposes...), Content: id.ContentUse}
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

// Tokens returns the product tokens that choose the group of a robots.txt for a request with
// this User-Agent. There is at least one. "*" stands for a bot without a name.
func (id *Identity) Tokens(userAgent string) []string {
	if len(id.ProductTokens) > 0 {
		return id.ProductTokens
	}
	return []string{productToken(userAgent)}
}

// TokenOf returns the product token of agent, which is a bare token or a whole User-Agent.
func TokenOf(agent string) string {
	if isToken(agent) {
		return agent
	}
	return productToken(agent)
}

// Declares reports whether preferences of sites concern the identity.
func (id *Identity) Declares() bool { return len(id.Purposes) > 0 && id.Mode != Off }

// Rewrites reports whether Rewrite changes anything.
func (id *Identity) Rewrites() bool { return id.UserAgent != "" || id.From != "" }

// Rewrite sets the bot's User-Agent and From in a request's header.
func (id *Identity) Rewrite(h http.Header) {
	if id.UserAgent != "" {
		h.Set("User-Agent", id.UserAgent)
	}
	if id.From != "" {
		h.Set("From", id.From)
	}
}

// Mode says what happens to a request that robots.txt disallows. The zero value means
// [Enforce].
type Mode string

const (
	// Enforce refuses the request.
	Enforce Mode = "enforce"
	// Report lets the request through, and counts and logs it as disallowed.
	Report Mode = "report"
	// Off does not consult robots.txt.
	Off Mode = "off"
)

// UnmarshalText reads one of the words above.
func (m *Mode) UnmarshalText(text []byte) error {
	return enum.Unmarshal(m, text, Enforce, Report, Off)
}
