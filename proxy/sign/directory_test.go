package sign

import (
	"crypto/ed25519"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"robotsproxy/robots"
)

const publishedSet = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs","use":"sig"}]}`

// The example of the draft.
func TestDirectoryVector(t *testing.T) {
	origin := target(t, "https://signature-agent.test").Origin
	d, err := SignDirectory([]*Key{published}, origin, time.Unix(1735689600, 0), time.Unix(4889289600, 0))
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Body) != publishedSet {
		t.Errorf("the body is %s", d.Body)
	}
	h := http.Header{"Content-Type": {"text/html", "text/plain"}}
	d.Set(h)
	want := http.Header{
		"Content-Type":    {"application/http-message-signatures-directory+json"},
		"Content-Digest":  {"sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:"},
		"Signature-Input": {`binding=("@authority";req "content-digest");created=1735689600;expires=4889289600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";tag="http-message-signatures-directory"`},
		"Signature":       {`binding=:l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:`},
	}
	if !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("got  %v\nwant %v", h, want)
	}
}

func TestJWKSet(t *testing.T) {
	if got := string(JWKSet(nil)); got != `{"keys":[]}` {
		t.Errorf("without keys: %s", got)
	}
	if got := string(JWKSet([]*Key{published})); got != publishedSet {
		t.Errorf("got %s", got)
	}
	both := string(JWKSet([]*Key{another, published}))
	if first, second := strings.Index(both, another.ID()), strings.Index(both, published.ID()); first < 0 || second < first {
		t.Errorf("the keys are not in their order: %s", both)
	}
}

func TestEveryKeySignsTheDirectory(t *testing.T) {
	keys := []*Key{another, published}
	d, err := SignDirectory(keys, target(t, "https://BOT.example.org:8443").Origin, noon(), noon().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := httpsfv.UnmarshalDictionary([]string{d.SignatureInput})
	if err != nil {
		t.Fatal(err)
	}
	signatures, err := httpsfv.UnmarshalDictionary([]string{d.Signature})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"binding", "binding2"}; !slices.Equal(inputs.Names(), want) || !slices.Equal(signatures.Names(), want) {
		t.Fatalf("%s\n%s", d.SignatureInput, d.Signature)
	}
	for i, label := range inputs.Names() {
		input, _ := inputs.Get(label)
		params, err := httpsfv.Marshal(input.(httpsfv.InnerList))
		if err != nil {
			t.Fatal(err)
		}
		base := "\"@authority\";req: bot.example.org:8443\n\"content-digest\": " + d.ContentDigest + "\n\"@signature-params\": " + params
		signature, _ := signatures.Get(label)
		if !ed25519.Verify(keys[i].private.Public().(ed25519.PublicKey), []byte(base), signature.(httpsfv.Item).Value.([]byte)) {
			t.Errorf("%s does not sign this:\n%s", label, base)
		}
	}
}

func TestDirectoriesThatCannotBe(t *testing.T) {
	origin := target(t, "https://bot.example.org").Origin
	for name, test := range map[string]struct {
		keys    []*Key
		origin  robots.Origin
		expires time.Time
	}{
		"no keys":              {nil, origin, noon().Add(time.Hour)},
		"a key twice":          {[]*Key{another, published, another}, origin, noon().Add(time.Hour)},
		"no origin":            {[]*Key{another}, robots.Origin{}, noon().Add(time.Hour)},
		"expired when created": {[]*Key{another}, origin, noon().Add(time.Microsecond)},
	} {
		if d, err := SignDirectory(test.keys, test.origin, noon(), test.expires); err == nil || d.Body != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
