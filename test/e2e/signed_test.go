package e2e

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"robotsproxy/internal/signtest"
)

// A request for which no robots.txt is asked is signed for the network that is known by then.
func TestNetworkIsRememberedForSignatures(t *testing.T) {
	t.Parallel()
	key, id := signingKey(t, 1)
	keys := map[string]ed25519.PublicKey{id: seedKey(1).Public().(ed25519.PublicKey)}
	answer := func(w http.ResponseWriter, r *http.Request) {
		signature, err := signtest.Request(r, "https://bot.example.org", keys, time.Now())
		if err != nil {
			t.Errorf("%s: %v", r.RequestURI, err)
		}
		w.Header().Set("Server", "cloudflare")
		io.WriteString(w, signature.Form)
	}
	site := newOrigin(t, "https", answer, answer)
	sign := fmt.Sprintf("sign: {agent: 'https://bot.example.org', keys: [%s]}", key)
	w := start(t, fmt.Sprintf("identities: [{name: exempt, match: {user_agents: [exempt]}, mode: off, %s}]\ndefault_identity: {%[1]s}", sign))
	for _, step := range []struct{ agent, path, want string }{
		{"exempt", "/a", "dictionary"}, // nothing is known
		{"curl", "/a", "string"},       // its robots.txt is asked for first
		{"exempt", "/a", "string"},
		{"curl", "/robots.txt", "string"},
	} {
		if got := w.curl("-A", step.agent, site.URL+step.path); got.status != 200 || got.body != step.want {
			t.Errorf("%s as %s: status %d, signed in the form %q, want %q", step.path, step.agent, got.status, got.body, step.want)
		}
	}
}
