package e2e

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"robotsproxy/internal/signtest"
	"robotsproxy/proxy/sign"
)

// signingKey writes a key, which is always the same for n, to a new file.
func signingKey(t *testing.T, n byte) (file, id string) {
	t.Helper()
	key := sign.NewKey(seedKey(n))
	file = filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(file, key.PEM(), 0o600))
	return file, key.ID()
}

// seedKey is the private key that signingKey writes.
func seedKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// directoryAt returns the thumbprints of the keys in the directory at an address, which must be
// that of an authority. The host is what the request names.
func directoryAt(t *testing.T, address, path, host, authority string) []string {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	must(t, err)
	r.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	resp, err := client.Do(r)
	must(t, err)
	defer resp.Body.Close()
	ids, err := signtest.Directory(resp, authority, time.Now())
	must(t, err)
	return ids
}

// The directory is there at every path and address where verifiers look, follows the
// configuration, and outlasts the proxy's doors.
func TestDirectory(t *testing.T) {
	t.Parallel()
	oldKey, oldID := signingKey(t, 1)
	newKey, newID := signingKey(t, 2)
	both := []string{oldID, newID}
	slices.Sort(both)
	config := func(keys string) string {
		return fmt.Sprintf("directory_listen: 127.0.0.1:0\nshutdown_grace: 10m\nidentities: [{name: a, match: {user_agents: [a]}, sign: {agent: 'https://Bot.example.org:443', keys: [%s]}}]", keys)
	}
	w := start(t, config(oldKey))
	directory := w.at("directory_listen")
	want := func(ids ...string) {
		t.Helper()
		for _, at := range [][2]string{{directory, "/"}, {directory, sign.DirectoryPath}, {w.admin, sign.DirectoryPath}} {
			for _, host := range []string{"bot.example.org", "replica-7.internal:8090"} {
				if got := directoryAt(t, at[0], at[1], host, "bot.example.org"); !slices.Equal(got, ids) {
					t.Errorf("%s%s, asked for as %s: %q, want %q", at[0], at[1], host, got, ids)
				}
			}
		}
	}
	want(oldID)
	w.reload(true, config(newKey+", "+oldKey))
	want(both...)
	if line := w.refusedReload(config("none.pem")); !strings.Contains(line, "robotsproxy keys new") {
		t.Errorf("the log says %s", line)
	}
	want(both...)
	w.reload(false, config(newKey))
	want(newID)

	release := make(chan struct{})
	site := newOrigin(t, "http", shop(), func(rw http.ResponseWriter, _ *http.Request) {
		rw.(http.Flusher).Flush()
		<-release
	})
	page, err := w.client(false).Get(site.URL + "/slow")
	must(t, err)
	defer page.Body.Close()
	w.signal(syscall.SIGTERM)
	w.log.wait(t, w.exited, "stopping")
	w.wantNoListener()
	want(newID)
	close(release)
	io.Copy(io.Discard, page.Body)
	if state := w.ended(); state.ExitCode() != 0 {
		t.Errorf("%v, want exit code 0", state)
	}
}

// Several bots behind one proxy have a directory each, which Host tells apart.
func TestDirectoriesOfSeveralAgents(t *testing.T) {
	t.Parallel()
	firstKey, firstID := signingKey(t, 1)
	secondKey, secondID := signingKey(t, 2)
	w := start(t, "directory_listen: 127.0.0.1:0", fmt.Sprintf(
		"identities: [{name: a, match: {user_agents: [a]}, sign: {agent: 'https://a.example', keys: [%s]}}]\ndefault_identity: {sign: {agent: 'https://b.example:8443', keys: [%s]}}", firstKey, secondKey))
	for authority, id := range map[string]string{"a.example": firstID, "b.example:8443": secondID} {
		for _, address := range []string{w.at("directory_listen"), w.admin} {
			if got := directoryAt(t, address, sign.DirectoryPath, authority, authority); !slices.Equal(got, []string{id}) {
				t.Errorf("%s: %q, want %q", authority, got, id)
			}
		}
	}
	if status, _ := w.get(sign.DirectoryPath); status != http.StatusNotFound {
		t.Errorf("by its address: status %d", status)
	}
}

func TestNoDirectoryWithoutKeys(t *testing.T) {
	t.Parallel()
	w := start(t)
	if status, _ := w.get(sign.DirectoryPath); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	if line := w.log.Lines(`"message":"serving"`); strings.Contains(line[0], "directory_listen") {
		t.Errorf("the log says %s", line)
	}
}

// The files of "keys directory" make nginx serve a directory that verifies. The test does not
// run in parallel: another one might take nginx's port.
func TestStaticDirectory(t *testing.T) {
	first, firstID := signingKey(t, 1)
	second, secondID := signingKey(t, 2)
	w := newWorld(t, fmt.Sprintf("default_identity: {sign: {agent: 'https://bot.example.org', keys: [%s, %s]}}", first, second))
	folder := filepath.Join(t.TempDir(), "public")
	if out, err := exec.Command(program, "keys", "directory", "--config", w.config, "-o", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site := startServer(t, func(port string) *exec.Cmd {
		return nginxWith(t, port, folder, "charset utf-8; gzip on; gzip_types *; gzip_min_length 1; include "+filepath.Join(folder, "nginx.conf")+";")
	})
	for _, path := range []string{"/", sign.DirectoryPath} {
		got := directoryAt(t, strings.TrimPrefix(site, "http://"), path, "bot.example.org", "bot.example.org")
		wantSame(t, path, got, []string{firstID, secondID})
	}
}

// "keys test" looks up its key as a site does, sends what it says, and knows what to do next.
func TestKeysTest(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(200)
	var directory atomic.Pointer[httputil.ReverseProxy]
	agent := newOrigin(t, "https", shop(), func(rw http.ResponseWriter, r *http.Request) { directory.Load().ServeHTTP(rw, r) })
	site := newOrigin(t, "h2", shop(), func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(int(status.Load())) })
	key, id := signingKey(t, 1)
	other, _ := signingKey(t, 2)
	config := func(keys string) string {
		return fmt.Sprintf("directory_listen: 127.0.0.1:0\ndefault_identity: {user_agent: TestBot/1.0, sign: {agent: '%s', keys: [%s]}}", agent.URL, keys)
	}
	w := start(t, config(key))
	directory.Store(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.at("directory_listen")}))
	test := func(wantExit int, want ...string) {
		t.Helper()
		command := exec.Command(program, "keys", "test", "--config", w.config, "--data-dir", w.dir, site.URL+"/products/1?q=1")
		out, _ := command.CombinedOutput()
		if got := command.ProcessState.ExitCode(); got != wantExit {
			t.Errorf("exit code %d, want %d", got, wantExit)
		}
		for _, part := range want {
			if !strings.Contains(string(out), part) {
				t.Errorf("it lacks %q:\n%s", part, out)
			}
		}
	}
	test(0, "key        "+id, "directory  "+agent.URL+"/: it has the key", "directory  "+agent.URL+sign.DirectoryPath+": it has the key", "form       dictionary", "answer     200")
	sent := site.last(t)
	if got := sent.Header; got.Get("User-Agent") != "TestBot/1.0" || got.Get("Signature-Agent") != "sig1=\""+agent.URL+"\"" || got.Get("Signature") == "" || !strings.Contains(got.Get("Signature-Input"), id) {
		t.Errorf("the request has %v", got)
	}
	status.Store(403)
	test(1, "answer     403", "a signature identifies and does not admit")
	w.configure(config(other)) // which the running proxy does not know of
	test(1, "it lacks the key", "publish the key first")
}

// The proxy's home page says by which key the asking client's requests are signed.
func TestHomePageOfASigner(t *testing.T) {
	t.Parallel()
	key, id := signingKey(t, 1)
	w := start(t, fmt.Sprintf("identities: [{name: a, match: {user_agents: [Signer]}, sign: {agent: 'https://bot.example.org', keys: [%s]}}]", key))
	for _, accept := range []string{"text/plain", "text/html"} {
		for agent, signs := range map[string]bool{"Signer": true, "Other": false} {
			page := w.curl("--noproxy", "*", "-A", agent, "-H", "Accept: "+accept, "http://"+w.proxy+"/")
			if page.status != 200 || strings.Contains(page.body, id) != signs || strings.Contains(page.body, "https://bot.example.org") != signs {
				t.Errorf("%s, %s: status %d: %s", accept, agent, page.status, page.body)
			}
		}
	}
}
