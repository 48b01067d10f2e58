package directory

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/internal/signtest"
	"robotsproxy/proxy/identity"
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

func agents(t *testing.T, keys map[string][]*sign.Key) (all []Agent) {
	t.Helper()
	for at, of := range keys {
		all = append(all, Agent{origin(t, at), of})
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

// verify returns the thumbprints of the keys that a response publishes for an authority.
func verify(t *testing.T, resp *http.Response, authority string, now time.Time) []string {
	t.Helper()
	ids, err := signtest.Directory(resp, authority, now)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func ids(keys ...*sign.Key) (all []string) {
	for _, k := range keys {
		all = append(all, k.ID())
	}
	slices.Sort(all)
	return all
}

func TestOneAgent(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{"https://bot.example.org:8443": {key(1), key(2)}})
	for _, path := range []string{"/", "/?a=b", "/.well-known/http-message-signatures-directory"} {
		for _, host := range []string{"bot.example.org:8443", "BOT.example.org", "10.0.0.1:80", "a b", ""} {
			resp := ask(d, "GET", host, path)
			if got, want := verify(t, resp, "bot.example.org:8443", noon()), ids(key(1), key(2)); !slices.Equal(got, want) {
				t.Errorf("%s of %q: %q, want %q", path, host, got, want)
			}
			if got, want := resp.Header.Get("Cache-Control"), fmt.Sprintf("max-age=%.0f", MaxAge.Seconds()); got != want {
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

// identities are those of a configuration, loaded, each with an agent and keys.
func identities(t *testing.T, signing ...identity.Signing) *identity.Table {
	t.Helper()
	var table identity.Table
	for _, s := range signing {
		table.Entries = append(table.Entries, identity.Entry{Identity: identity.Identity{Signing: s}})
	}
	table, err := table.Load()
	if err != nil {
		t.Fatal(err)
	}
	return &table
}

// signing is the section of an identity with these keys.
func signing(t *testing.T, agent string, keys ...*sign.Key) (s identity.Signing) {
	t.Helper()
	s.Agent = agent
	for i, k := range keys {
		path := filepath.Join(t.TempDir(), strconv.Itoa(i))
		if err := os.WriteFile(path, k.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Keys = append(s.Keys, path)
	}
	return s
}

func TestAgentsOfIdentities(t *testing.T) {
	got := map[string][]string{}
	for _, a := range AgentsOf(identities(t,
		signing(t, "https://one.example", key(1), key(2)),
		identity.Signing{},
		signing(t, "https://two.example", key(2)),
		signing(t, "https://ONE.example:443", key(3), key(1)),
	).All()) {
		for _, k := range a.Keys {
			got[a.Origin.String()] = append(got[a.Origin.String()], k.ID())
		}
	}
	want := map[string][]string{"https://one.example": ids(key(1), key(2), key(3)), "https://two.example": ids(key(2))}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := AgentsOf(identities(t).All()); len(got) > 0 {
		t.Errorf("without keys: %v", got)
	}
}

// Replicas whose configurations differ in the order of keys, as they do while keys are
// rotated, publish the same body. So the signatures of one hold for the body of another.
func TestReplicasServeTheSameBody(t *testing.T) {
	body := func(signing ...identity.Signing) string {
		d := New(noon)
		if err := d.SetAgents(AgentsOf(identities(t, signing...).All())); err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(ask(d, "GET", "", "/").Body)
		return string(text)
	}
	const agent = "https://bot.example.org"
	want := body(signing(t, agent, key(1), key(2), key(3)))
	for _, other := range [][]identity.Signing{
		{signing(t, agent, key(3), key(2), key(1))},
		{signing(t, agent, key(2)), signing(t, agent, key(1), key(3), key(2))},
	} {
		if got := body(other...); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if !strings.HasSuffix(want, "}]}") {
		t.Errorf("the body does not end with its JSON: %q", want)
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

// A monotonic reading, which a time prints as m=, would hide that the clock has been set or that
// the machine has slept.
func TestSignaturesAgeByTheClock(t *testing.T) {
	d := serving(t, time.Now, map[string][]*sign.Key{"https://bot.example.org": {key(1)}})
	if at := d.agents[0].signedAt.String(); strings.Contains(at, "m=") {
		t.Errorf("signatures were made at %s", at)
	}
}

func TestSetAgents(t *testing.T) {
	d := serving(t, noon, map[string][]*sign.Key{"https://bot.example.org": {key(1)}})
	if err := d.SetAgents([]Agent{{Origin: origin(t, "https://other.example")}}); err == nil || !strings.Contains(err.Error(), "https://other.example") {
		t.Errorf("an agent without keys: %v", err)
	}
	verify(t, ask(d, "GET", "", "/"), "bot.example.org", noon())
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 20 {
				if err := d.SetAgents(agents(t, map[string][]*sign.Key{"https://bot.example.org": {key(1), key(byte(i + 2))}})); err != nil {
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
