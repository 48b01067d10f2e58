package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"robotsproxy/internal/keyerr"
	"robotsproxy/robots"
)

// published is the key with which the drafts sign their examples (RFC 9421 section B.1.4).
var published = NewKey(ed25519.NewKeyFromSeed(decode(base64.RawURLEncoding, "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU")))

// another is a key that only the tests have.
var another = NewKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))

func decode(encoding *base64.Encoding, s string) []byte {
	octets, err := encoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return octets
}

func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 999, time.UTC) }

// target is that of a URL.
func target(t testing.TB, url string) robots.Target {
	t.Helper()
	target, err := robots.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// signer returns one for https://bot.example.org, with options that change changes.
func signer(t testing.TB, change func(*Options)) *Signer {
	t.Helper()
	opts := Defaults()
	opts.Agent = "https://bot.example.org"
	if change != nil {
		change(&opts)
	}
	s, err := NewSigner(another, opts, noon, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The examples of the drafts, in both forms.
func TestRequestVectors(t *testing.T) {
	for _, v := range []struct {
		form             Form
		expires          int64
		nonce            string
		agent, signature string
		input            string
	}{
		{
			form: Dictionary, expires: 4889289600,
			nonce:     "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
			agent:     `agent2="https://signature-agent.test"`,
			input:     `sig2=("@authority" "signature-agent";key="agent2");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=4889289600;nonce="n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";tag="web-bot-auth"`,
			signature: `sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:`,
		},
		{
			form: String, expires: 1735693200,
			nonce:     "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
			agent:     `"https://signature-agent.test"`,
			input:     `sig2=("@authority" "signature-agent");created=1735689600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";expires=1735693200;nonce="e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";tag="web-bot-auth"`,
			signature: `sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:`,
		},
	} {
		t.Run(v.form.String(), func(t *testing.T) {
			created := time.Unix(1735689600, 0)
			s := &Signer{
				key: published, cover: []string{"@authority"},
				lifetime: time.Unix(v.expires, 0).Sub(created),
				now:      func() time.Time { return created.Add(clockSkew) },
				random:   bytes.NewReader(decode(base64.StdEncoding, v.nonce)),
			}
			s.name("sig2", "agent2", target(t, "https://signature-agent.test").Origin)
			got, err := s.Sign("GET", target(t, "https://example.com/path/to/resource"), v.form)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Fields{v.agent, v.input, v.signature}); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	fields, err := signer(t, func(o *Options) { o.Lifetime = 90 * time.Second }).Sign("GET", target(t, "https://example.com/"), Dictionary)
	if err != nil {
		t.Fatal(err)
	}
	list := parse(t, fields)
	want := map[string]any{
		"created": noon().Unix() - 5, "expires": noon().Unix() + 85,
		"keyid": another.ID(), "alg": "ed25519", "tag": "web-bot-auth", "nonce": param(list, "nonce"),
	}
	got := map[string]any{}
	for _, name := range list.Params.Names() {
		got[name] = param(list, name)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the parameters are %v, want %v", got, want)
	}
	if nonce := decode(base64.StdEncoding, param(list, "nonce").(string)); len(nonce) != 64 {
		t.Errorf("the nonce has %d octets, want 64", len(nonce))
	}
}

func TestEachSignatureHasItsOwnNonce(t *testing.T) {
	s := signer(t, nil)
	seen := map[any]bool{}
	for range 10 {
		fields, err := s.Sign("GET", target(t, "https://example.com/"), String)
		if err != nil {
			t.Fatal(err)
		}
		seen[param(parse(t, fields), "nonce")] = true
	}
	if len(seen) != 10 {
		t.Errorf("10 signatures have %d nonces", len(seen))
	}
}

func TestWhatIsCovered(t *testing.T) {
	for _, test := range []struct{ method, url, authority, path string }{
		{"GET", "https://example.com", "example.com", "/"},
		{"GET", "https://example.com?a=b", "example.com", "/"},
		{"GET", "https://EXAMPLE.com:443/a?b=/c?d", "example.com", "/a"},
		{"POST", "http://example.com:80/%7Ea/%2f//b/../c", "example.com", "/%7Ea/%2f//b/../c"},
		{"get", "http://example.com:443/", "example.com:443", "/"},
		{"HEAD", "https://example.com:8443/", "example.com:8443", "/"},
		{"GET", "https://bücher.example/ä", "xn--bcher-kva.example", ""},
		{"GET", "https://BÜCHER.example/%C3%A4", "xn--bcher-kva.example", "/%C3%A4"},
		{"GET", "https://[2001:DB8::1]:8443/", "[2001:db8::1]:8443", "/"},
	} {
		for _, form := range []Form{Dictionary, String} {
			to := target(t, test.url)
			fields, err := signer(t, nil).Sign(test.method, to, form)
			if test.path == "" { // a raw ä is no value that a signature covers
				if err == nil || fields != (Fields{}) {
					t.Errorf("%s: signed as %+v", test.url, fields)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", test.url, err)
				continue
			}
			verify(t, fields, form, map[string]string{"@method": test.method, "@authority": test.authority, "@path": test.path})
		}
	}
}

func TestCoverIsKeptInItsOrder(t *testing.T) {
	s := signer(t, func(o *Options) { o.Cover = []string{"@path", "@authority"} })
	for form, want := range map[Form]string{
		Dictionary: `sig1=("@path" "@authority" "signature-agent";key="sig1");`,
		String:     `sig1=("@path" "@authority" "signature-agent");`,
	} {
		fields, err := s.Sign("GET", target(t, "https://example.com/"), form)
		if err != nil || !strings.HasPrefix(fields.SignatureInput, want) {
			t.Errorf("%s: %s (%v), want it to begin with %s", form, fields.SignatureInput, err, want)
		}
	}
}

func TestAsteriskOfOptionsIsAnEmptyPath(t *testing.T) {
	to := target(t, "https://example.com")
	to.Path = "*"
	fields, err := signer(t, nil).Sign("OPTIONS", to, Dictionary)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, fields, Dictionary, map[string]string{"@method": "OPTIONS", "@authority": "example.com", "@path": "/"})
}

func TestValuesThatCannotBeCovered(t *testing.T) {
	good := target(t, "https://example.com/")
	for name, test := range map[string]struct {
		method string
		target robots.Target
	}{
		"no method":               {"", good},
		"a line feed in method":   {"GET\n\"@path\": /b", good},
		"a space in method":       {"GET /", good},
		"no host":                 {"GET", robots.Target{Path: "/"}},
		"a line feed in host":     {"GET", robots.Target{Origin: robots.Origin{Scheme: "https", Host: "a\nb", Port: "443"}, Path: "/"}},
		"a path without a /":      {"GET", robots.Target{Origin: good.Origin, Path: "https://example.com/"}},
		"a line feed in path":     {"GET", robots.Target{Origin: good.Origin, Path: "/\n\"@method\": GET"}},
		"a raw octet in path":     {"GET", robots.Target{Origin: good.Origin, Path: "/\xE4"}},
		"a control in path":       {"GET", robots.Target{Origin: good.Origin, Path: "/\x7F"}},
		"a space in path":         {"GET", robots.Target{Origin: good.Origin, Path: "/a b"}},
		"a tab in path and query": {"GET", robots.Target{Origin: good.Origin, Path: "/\t?q"}},
	} {
		if fields, err := signer(t, nil).Sign(test.method, test.target, Dictionary); err == nil || fields != (Fields{}) {
			t.Errorf("%s: signed as %+v", name, fields)
		}
	}
}

func TestNoRandomnessNoSignature(t *testing.T) {
	s := signer(t, nil)
	s.random = io.LimitReader(rand.Reader, nonceSize-1)
	if fields, err := s.Sign("GET", target(t, "https://example.com/"), String); !errors.Is(err, io.ErrUnexpectedEOF) || fields != (Fields{}) {
		t.Errorf("%+v, %v", fields, err)
	}
}

func TestSetReplacesFields(t *testing.T) {
	h := http.Header{"Signature-Agent": {"a", "b"}, "Signature": {"old=:AA==:"}}
	(&Fields{"agent", "input", "signature"}).Set(h)
	want := http.Header{"Signature-Agent": {"agent"}, "Signature-Input": {"input"}, "Signature": {"signature"}}
	if !maps.EqualFunc(h, want, slices.Equal) {
		t.Errorf("%v, want %v", h, want)
	}
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		faults []string // each a key and a part of what is wrong with it
	}{
		"defaults":             {func(o *Options) {}, nil},
		"shortest":             {func(o *Options) { o.Lifetime = 10 * time.Second }, nil},
		"longest":              {func(o *Options) { o.Lifetime = 24 * time.Hour }, nil},
		"too short":            {func(o *Options) { o.Lifetime = 9 * time.Second }, []string{"lifetime: 9s is not between 10s and 24h"}},
		"too long":             {func(o *Options) { o.Lifetime = 24*time.Hour + 1 }, []string{"lifetime: 24h0m0.000000001s is not between"}},
		"no agent":             {func(o *Options) { o.Agent = "" }, []string{"agent: no scheme"}},
		"an http agent":        {func(o *Options) { o.Agent = "http://bot.example.org" }, []string{"agent: http://bot.example.org is not an https origin"}},
		"an agent with a path": {func(o *Options) { o.Agent = "https://bot.example.org/keys" }, []string{"write https://bot.example.org"}},
		"an agent with quotes": {func(o *Options) { o.Agent = `https://bot".example.org` }, []string{"agent: "}},
		"nothing covered":      {func(o *Options) { o.Cover = nil }, []string{"cover: @authority is missing"}},
		"no authority":         {func(o *Options) { o.Cover = []string{"@path"} }, []string{"cover: @authority is missing"}},
		"twice":                {func(o *Options) { o.Cover = []string{"@authority", "@authority"} }, []string{"cover: @authority stands there twice"}},
		"what hops change":     {func(o *Options) { o.Cover = []string{"@authority", "via"} }, []string{`cover: "via" is none of @authority, @method, @path`}},
		"all at once":          {func(o *Options) { *o = Options{} }, []string{"agent: ", "cover: ", "lifetime: "}},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Defaults()
			opts.Agent = "https://bot.example.org"
			test.change(&opts)
			_, err := NewSigner(another, opts, noon, rand.Reader)
			faults := keyerr.All(err)
			if len(faults) != len(test.faults) {
				t.Fatalf("%v, want %q", err, test.faults)
			}
			for i, fault := range faults {
				if !strings.Contains(fault.Error(), test.faults[i]) || fault.Key == "" {
					t.Errorf("%v, want %q in it", fault, test.faults[i])
				}
			}
		})
	}
}

func TestAgentIsSentInItsNormalForm(t *testing.T) {
	s := signer(t, func(o *Options) { o.Agent = "HTTPS://Bücher.example:443" })
	fields, err := s.Sign("GET", target(t, "https://example.com/"), Dictionary)
	if want := `sig1="https://xn--bcher-kva.example"`; err != nil || fields.SignatureAgent != want {
		t.Errorf("%s (%v), want %s", fields.SignatureAgent, err, want)
	}
}

// parse returns the one member of Signature-Input, as another program's parser reads it.
func parse(t testing.TB, fields Fields) httpsfv.InnerList {
	t.Helper()
	inputs, err := httpsfv.UnmarshalDictionary([]string{fields.SignatureInput})
	if err != nil {
		t.Fatalf("%v: %s", err, fields.SignatureInput)
	}
	member, _ := inputs.Get("sig1")
	list, ok := member.(httpsfv.InnerList)
	if !ok || len(inputs.Names()) != 1 {
		t.Fatalf("no inner list sig1 alone: %s", fields.SignatureInput)
	}
	if again, err := httpsfv.Marshal(inputs); err != nil || again != fields.SignatureInput {
		t.Fatalf("%s is not how a parser writes it: %s (%v)", fields.SignatureInput, again, err)
	}
	return list
}

func param(list httpsfv.InnerList, name string) any {
	value, _ := list.Params.Get(name)
	return value
}

// verify checks fields as a site does: it parses them with another program's parser and
// builds the signature base anew, from what parsing gave and the values of the request.
func verify(t testing.TB, fields Fields, form Form, request map[string]string) {
	t.Helper()
	const agent = "https://bot.example.org"
	list := parse(t, fields)
	var lines []string
	for _, item := range list.Items {
		name := item.Value.(string)
		value, derived := request[name]
		if name == "signature-agent" {
			var got httpsfv.Member
			var err error
			if key, keyed := item.Params.Get("key"); form == Dictionary {
				var members *httpsfv.Dictionary
				if members, err = httpsfv.UnmarshalDictionary([]string{fields.SignatureAgent}); err == nil && keyed {
					got, _ = members.Get(key.(string))
				}
			} else if !keyed {
				got, err = httpsfv.UnmarshalItem([]string{fields.SignatureAgent})
			}
			if it, ok := got.(httpsfv.Item); err != nil || !ok || it.Value != agent || len(it.Params.Names()) != 0 {
				t.Fatalf("Signature-Agent is %s as a %s (%v)", fields.SignatureAgent, form, err)
			}
			value = `"` + agent + `"`
		} else if !derived {
			t.Fatalf("%s is covered", name)
		}
		id, err := httpsfv.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, id+": "+value)
	}
	if want := len(request) + 1; len(lines) != want {
		t.Fatalf("%s covers %d components, want %d", fields.SignatureInput, len(lines), want)
	}
	params, err := httpsfv.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	base := strings.Join(append(lines, `"@signature-params": `+params), "\n")

	signatures, err := httpsfv.UnmarshalDictionary([]string{fields.Signature})
	if err != nil {
		t.Fatalf("%v: %s", err, fields.Signature)
	}
	member, _ := signatures.Get("sig1")
	item, _ := member.(httpsfv.Item)
	signature, _ := item.Value.([]byte)
	if !ed25519.Verify(another.private.Public().(ed25519.PublicKey), []byte(base), signature) {
		t.Fatalf("%s does not sign this:\n%s", fields.Signature, base)
	}
}

// Whatever is signed, the fields parse and verify; and nothing is signed that has a second
// reading.
func FuzzSign(f *testing.F) {
	f.Add("GET", "example.com", "443", "/", false)
	f.Add("POST", "EXAMPLE.com", "8443", "/a%20b?q=\"", true)
	f.Add("GET\n", "a\"b\\", "", "/\n\"@method\": GET", false)
	f.Add("", "", "80", "", true)
	f.Add("OPTIONS", "::1", "1", "*", true)
	f.Add("Ä", "bücher.example", "443", "/ä\x00\x7f\xff", false)
	s := signer(f, nil)
	f.Fuzz(func(t *testing.T, method, host, port, path string, isString bool) {
		form := Dictionary
		if isString {
			form = String
		}
		to := robots.Target{Origin: robots.Origin{Scheme: "https", Host: host, Port: port}, Path: path}
		fields, err := s.Sign(method, to, form)
		covered, _, _ := strings.Cut(path, "?")
		plain := func(s string) bool {
			return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
		}
		possible := plain(method+host+covered) && (port == "443" || plain(port)) && method != "" && host != "" &&
			(covered == "" || covered == "*" || covered[0] == '/')
		if err != nil {
			if possible || fields != (Fields{}) {
				t.Fatalf("%q %q: %v, %+v", method, to, err, fields)
			}
			return
		}
		if !possible {
			t.Fatalf("%q %q is signed", method, to)
		}
		if covered == "" || covered == "*" {
			covered = "/"
		}
		verify(t, fields, form, map[string]string{"@method": method, "@authority": to.Origin.Authority(), "@path": covered})
	})
}

func BenchmarkSign(b *testing.B) {
	s := signer(b, nil)
	to := target(b, "https://example.com/products/lamp?color=red")
	for _, form := range []Form{Dictionary, String} {
		b.Run(form.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign("GET", to, form); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
