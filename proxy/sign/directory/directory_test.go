package directory

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
)

// After a request that is too large, net/http waits for half a second before it closes.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// key returns a key that is always the same for n.
func key(n byte) *sign.Key {
	return sign.NewKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
}

func origin(t *testing.T, s string) robots.Origin {
	t.Helper()
	o, err := robots.ParseOrigin(s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) }

// serving returns a directory of keys by their agents.
func serving(t *testing.T, now func() time.Time, keys map[string][]*sign.Key) *Directory {
	t.Helper()
	d := New(now)
	if err := d.SetAgents(agents(t, keys)); err != nil {
		t.Fatal(err)
	}
	return d
}

func agents(t *testing.T, keys map[string][]*sign.Key) (all Agents) {
	t.Helper()
	for at, of := range keys {
		all.Add(origin(t, at), of...)
	}
	return all
}

// ask has the directory answer a request. The host is written as it is.
func ask(d http.Handler, method, host, path string) *http.Response {
	r := httptest.NewRequest(method, "http://any.example"+path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result()
}

// verify returns the thumbprints of the keys that a response publishes, each of which must
// sign it for an authority at a time.
func verify(t *testing.T, resp *http.Response, authority string, now time.Time) (ids []string) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v:\n%s", resp.Status, err, body)
	}
	if got := resp.Header["Content-Type"]; !slices.Equal(got, []string{"application/http-message-signatures-directory+json"}) {
		t.Errorf("the type is %q", got)
	}
	sum := sha256.Sum256(body)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	if got := resp.Header.Get("Content-Digest"); got != digest {
		t.Errorf("Content-Digest is %s, and the body's is %s", got, digest)
	}
	inputs, err := httpsfv.UnmarshalDictionary(resp.Header["Signature-Input"])
	if err != nil {
		t.Fatal(err)
	}
	signatures, err := httpsfv.UnmarshalDictionary(resp.Header["Signature"])
	if err != nil {
		t.Fatal(err)
	}
	signed := map[string]bool{}
	public := publicKeys(t, body)
	for _, label := range inputs.Names() {
		member, _ := inputs.Get(label)
		list := member.(httpsfv.InnerList)
		params, err := httpsfv.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := list.Params.Get("keyid")
		created, _ := list.Params.Get("created")
		expires, _ := list.Params.Get("expires")
		if created.(int64) >= now.Unix() || expires.(int64) <= now.Add(maxAge).Unix() {
			t.Errorf("the signature of %s holds from %d to %d, and it is %d", id, created, expires, now.Unix())
		}
		base := "\"@authority\";req: " + authority + "\n\"content-digest\": " + digest + "\n\"@signature-params\": " + params
		signature, _ := signatures.Get(label)
		if !ed25519.Verify(public[id.(string)], []byte(base), signature.(httpsfv.Item).Value.([]byte)) {
			t.Errorf("%s does not sign this:\n%s", id, base)
		}
		signed[id.(string)] = true
	}
	for id := range public {
		ids = append(ids, id)
		if !signed[id] {
			t.Errorf("%s does not sign", id)
		}
	}
	slices.Sort(ids)
	return ids
}

func publicKeys(t *testing.T, body []byte) map[string]ed25519.PublicKey {
	t.Helper()
	var set struct {
		Keys []struct{ Kid, X string }
	}
	if err := json.Unmarshal(body, &set); err != nil {
		t.Fatalf("%v:\n%s", err, body)
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			t.Fatalf("x is %q, %v", k.X, err)
		}
		keys[k.Kid] = x
	}
	return keys
}

func ids(keys ...*sign.Key) (all []string) {
	for _, k := range keys {
		all = append(all, k.ID())
	}
	slices.Sort(all)
	return all
}

func TestOneAgent(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{"https://bot.example.org:8443": {key(1), key(2), key(1)}})
	for _, path := range []string{"/", "/?a=b", "/.well-known/http-message-signatures-directory"} {
		for _, host := range []string{"bot.example.org:8443", "BOT.example.org", "10.0.0.1:80", "a b", ""} {
			resp := ask(d, "GET", host, path)
			if got, want := verify(t, resp, "bot.example.org:8443", noon()), ids(key(1), key(2)); !slices.Equal(got, want) {
				t.Errorf("%s of %q: %q, want %q", path, host, got, want)
			}
			if got := resp.Header.Get("Cache-Control"); got != "max-age=3600" {
				t.Errorf("Cache-Control is %q", got)
			}
		}
	}
}

func TestHostChoosesAmongAgents(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{
		"https://one.example":      {key(1), key(2)},
		"https://two.example":      {key(2)},
		"https://two.example:8443": {key(3)},
	})
	for host, want := range map[string][]*sign.Key{
		"one.example": {key(1), key(2)}, "ONE.example.": {key(1), key(2)}, "one.example:443": {key(1), key(2)},
		"two.example": {key(2)}, "two.example:8443": {key(3)},
		"one.example:8443": nil, "three.example": nil, "127.0.0.1": nil, "": nil, "one.example/": nil, "x@one.example": nil, "one .example": nil,
	} {
		resp := ask(d, "GET", host, "/")
		if want == nil {
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("%q: %s", host, resp.Status)
			}
			continue
		}
		authority := origin(t, "https://"+host).Authority()
		if got := verify(t, resp, authority, noon()); !slices.Equal(got, ids(want...)) {
			t.Errorf("%q: %q, want %q", host, got, ids(want...))
		}
	}
}

func TestOtherRequests(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{"https://bot.example.org": {key(1)}})
	for request, want := range map[string]int{
		"HEAD /": 200, "HEAD " + sign.DirectoryPath: 200,
		"POST /": 405, "OPTIONS /": 405, "DELETE " + sign.DirectoryPath: 405,
		"GET /robots.txt": 404, "GET //": 404, "GET " + sign.DirectoryPath + "/": 404, "GET /.well-known/": 404, "POST /other": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		resp := ask(d, method, "bot.example.org", path)
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", request, resp.Status, want)
		}
		if got := resp.Header.Get("Allow"); (got == "GET, HEAD") != (want == 405) {
			t.Errorf("%s: Allow is %q", request, got)
		}
		if resp.Header.Get("Signature") == "" == (want == 200) {
			t.Errorf("%s: %v", request, resp.Header)
		}
	}
	if resp := ask(New(noon), "GET", "bot.example.org", "/"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without agents: %s", resp.Status)
	}
}

// A body is the same whatever the order of the keys in the configuration, so that the
// signatures of one replica hold for the body of another.
func TestReplicasServeTheSameBody(t *testing.T) {
	body := func(keys ...*sign.Key) string {
		var all Agents
		for _, k := range keys {
			all.Add(origin(t, "https://bot.example.org"), k)
		}
		d := New(noon)
		if err := d.SetAgents(all); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(ask(d, "GET", "", "/").Body)
		return string(text)
	}
	want := body(key(1), key(2), key(3))
	for _, keys := range [][]*sign.Key{{key(3), key(2), key(1)}, {key(2), key(1), key(2), key(3)}} {
		if got := body(keys...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if strings.HasSuffix(want, "\n") {
		t.Error("the body ends with a line feed")
	}
}

func TestSignaturesAreRenewed(t *testing.T) {
	now := noon()
	d := serving(t, func() time.Time { return now }, map[string][]*sign.Key{"https://bot.example.org": {key(1)}})
	signature := func() string {
		resp := ask(d, "GET", "", "/")
		verify(t, resp, "bot.example.org", now)
		return resp.Header.Get("Signature")
	}
	first := signature()
	now = noon().Add(resignEvery - time.Second)
	if signature() != first {
		t.Error("signatures are renewed before they need to be")
	}
	for _, later := range []time.Duration{resignEvery, signaturesHold, 365 * 24 * time.Hour, -time.Hour} {
		now = noon().Add(later)
		if signature() == first {
			t.Errorf("after %v the signatures are the old ones", later)
		}
	}
}

func TestSetAgents(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{"https://bot.example.org": {key(1)}})
	if err := d.SetAgents(Agents{{Origin: origin(t, "https://other.example")}}); err == nil || !strings.Contains(err.Error(), "https://other.example") {
		t.Errorf("an agent without keys: %v", err)
	}
	verify(t, ask(d, "GET", "", "/"), "bot.example.org", noon())
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 20 {
				if err := d.SetAgents(agents(t, map[string][]*sign.Key{"https://bot.example.org": {key(1), key(byte(i))}})); err != nil {
					t.Error(err)
				}
				verify(t, ask(d, "GET", "", "/"), "bot.example.org", noon())
			}
		})
	}
	wait.Wait()
	if err := d.SetAgents(nil); err != nil || ask(d, "GET", "", "/").StatusCode != http.StatusNotFound {
		t.Errorf("without agents: %v", err)
	}
}

func TestServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(serving(t, noon, map[string][]*sign.Key{"https://bot.example.org": {key(1)}}), zerolog.Nop())
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(method, field string) *http.Response {
		r, err := http.NewRequest(method, "http://"+l.Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X", field)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	resp := get("GET", "")
	verify(t, resp, "bot.example.org", noon())
	head := get("HEAD", "")
	if body, _ := io.ReadAll(head.Body); len(body) > 0 || head.ContentLength != resp.ContentLength || head.Header.Get("Signature") != resp.Header.Get("Signature") {
		t.Errorf("HEAD: %v\n%s", head.Header, body)
	}
	if resp := get("GET", strings.Repeat("x", 2*maxHeaderBytes)); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %s", resp.Status)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
