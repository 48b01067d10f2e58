//go:build clients

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"robotsproxy/internal/signtest"
	"robotsproxy/proxy/sign"
)

const (
	agentHost  = "bot.example.org"
	cloudflare = ".cloudflare.example" // the domain of the hosts that answer as Cloudflare does
)

// Libraries that others wrote verify each request as the origin gets it, with the keys of the
// directory that the proxy serves, and the directory itself. They refuse a request of which
// any octet is another that its signature covers.
func TestLibrariesVerifyAllRequests(t *testing.T) {
	t.Parallel()
	first, firstID := signingKey(t, 1)
	second, secondID := signingKey(t, 2)
	var mu sync.Mutex
	var sent []signtest.Message
	note := func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Host, cloudflare) {
			w.Header().Set("Server", "cloudflare")
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, signtest.Message{Method: r.Method, URL: "https://" + r.Host + r.RequestURI, Headers: r.Header, Body: r.Proto + " " + string(body)})
	}
	site := newOrigin(t, "h2", note, note)
	w := start(t, fmt.Sprintf(`directory_listen: 127.0.0.1:0
log: {level: debug}
upstream: {ca_file: ORIGINS, proxy: "http://%s", insecure: ["*"]}
default_identity: {sign: {agent: "https://%s", keys: [%s, %s], lifetime: 10m}}`, newParent(t, site), agentHost, first, second))
	want := w.askForAll()

	var got []string
	var robots int
	for i := range sent {
		m := &sent[i]
		m.Check = "dictionary"
		if strings.HasSuffix(m.URL, "/robots.txt") {
			robots++ // its host was not known before
			continue
		}
		if strings.Contains(m.URL, cloudflare) {
			m.Check = "string"
		}
		got = append(got, m.Method+" "+m.URL+" "+m.Body)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || robots == 0 {
		t.Fatalf("the site was asked for %d files robots.txt and %d pages, want these %d pages:\n%s\n\nnot these:\n%s",
			robots, len(got), len(want), strings.Join(want, "\n"), strings.Join(got, "\n"))
	}

	log := w.log.String()
	for _, m := range sent {
		_, nonce, _ := strings.Cut(m.Headers.Get("Signature-Input"), `nonce="`)
		if nonce, _, _ = strings.Cut(nonce, `"`); nonce == "" || strings.Contains(log, nonce) {
			t.Fatalf("the log has the nonce %q", nonce)
		}
	}

	published := w.publishedKeys(firstID, secondID)
	for i := range sent {
		sent[i].Keys, sent[i].Body = published, ""
	}
	for i, fault := range libraryFaults(t, sent) {
		if fault != "" {
			t.Errorf("%s, %s %s: %s\n%q", sent[i].Check, sent[i].Method, sent[i].URL, fault, sent[i].Headers)
		}
		if !strings.Contains(sent[i].Headers.Get("Signature-Input"), firstID) {
			t.Errorf("%s %s is not signed by the first key", sent[i].Method, sent[i].URL)
		}
	}
	changed := changedEverywhere(sent)
	for i, fault := range libraryFaults(t, changed) {
		if fault == "" {
			t.Errorf("%s is taken for %s %s", changed[i].Check, changed[i].Method, changed[i].URL)
		}
	}
	t.Logf("%d requests for pages and %d for robots.txt verified; %d changed ones refused", len(got), robots, len(changed))
}

// askForAll asks for a thousand pages by tunnels, half over HTTP/1.1 and half over HTTP/2. It
// returns the method, the URL, the version and the body of each.
func (w *world) askForAll() (all []string) {
	w.t.Helper()
	hosts := []string{"example.com", "example.com:8443", "xn--bcher-kva.example", "xn--bcher-kva.example:444", "[2001:db8::1]:8443",
		"a" + cloudflare, "a" + cloudflare + ":8443", "xn--bcher-kva" + cloudflare}
	paths := []string{"/", "/?", "/search?q=a&q=b%20c", "/?/a/../b", "//a//b/", "/%7Ea/%2f/%C3%A4%20", "/a;p=1,2/:@!$&'()*+=", "/a?b?c/d",
		// web-bot-auth takes the path from a URL that Node has normalized.
		"/a/../b", "/./", "/%2e%2E/", "/{x}", `/"a"`, "/<^`|>", `/[a]/\`}
	var pages sync.WaitGroup
	next := make(chan func())
	for range 8 {
		pages.Go(func() {
			for ask := range next {
				ask()
			}
		})
	}
	clients := map[string]*http.Client{"HTTP/1.1": w.client(false), "HTTP/2.0": w.client(true)}
	for i := 0; len(all) < 1000; i++ {
		host, path, method := hosts[i%len(hosts)], paths[i/len(hosts)%len(paths)], []string{"GET", "POST", "HEAD", "DELETE", "BREW"}[i%5]
		if strings.Contains(host, cloudflare) && i/len(hosts)%len(paths) > 7 {
			path = fmt.Sprintf("/page/%d?n=%[1]d", i)
		}
		version, body := "HTTP/1.1", ""
		if len(all)%2 == 1 {
			version = "HTTP/2.0"
		}
		if method == "POST" {
			body = fmt.Sprintf("the body of %d", i)
		}
		all = append(all, method+" https://"+host+path+" "+version+" "+body)
		next <- func() {
			r, err := http.NewRequest(method, "https://"+host, strings.NewReader(body))
			if err != nil {
				w.t.Error(err)
				return
			}
			if r.URL.Opaque = path; strings.HasPrefix(path, "//") {
				r.URL.Opaque, r.URL.Path = "", path
			}
			resp, err := clients[version].Do(r)
			if err != nil {
				w.t.Error(err)
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				w.t.Errorf("%s https://%s%s: %s", method, host, path, resp.Status)
			}
		}
	}
	close(next)
	pages.Wait()
	return all
}

// publishedKeys returns the directory that the proxy serves, which must have these keys and be
// signed by each.
func (w *world) publishedKeys(ids ...string) []byte {
	w.t.Helper()
	var messages []signtest.Message
	for _, path := range []string{"/", sign.DirectoryPath} {
		resp, err := http.Get("http://" + w.at("directory_listen") + path)
		must(w.t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(w.t, err)
		for _, id := range ids {
			if !strings.Contains(string(body), id) {
				w.t.Fatalf("the directory lacks %s: %s", id, body)
			}
		}
		messages = append(messages,
			signtest.Message{Check: "directory", URL: "https://" + agentHost + path, Headers: resp.Header, Keys: body, Body: string(body)},
			signtest.Message{Check: "directory", URL: "https://elsewhere.example" + path, Headers: resp.Header, Keys: body, Body: string(body)})
	}
	for i, fault := range libraryFaults(w.t, messages) {
		if elsewhere := i%2 == 1; (fault != "") != elsewhere {
			w.t.Errorf("%s: %q\n%q", messages[i].URL, fault, messages[i].Headers)
		}
	}
	return messages[0].Keys
}

func libraryFaults(t *testing.T, messages []signtest.Message) []string {
	t.Helper()
	faults, err := signtest.Libraries(t.Context(), modules(t), messages)
	must(t, err)
	return faults
}

// changedEverywhere returns a request of each method, form and host with each octet of the
// method, the authority or the path replaced in turn.
func changedEverywhere(sent []signtest.Message) (changed []signtest.Message) {
	seen := map[string]bool{}
	for _, m := range sent {
		authority, target, _ := strings.Cut(strings.TrimPrefix(m.URL, "https://"), "/")
		if kind := m.Method + m.Check + authority; seen[kind] {
			continue
		} else {
			seen[kind] = true
		}
		path, query, asks := strings.Cut(target, "?")
		if asks {
			query = "?" + query
		}
		for part, text := range []string{m.Method, authority, path} {
			for i := range len(text) {
				other := byte('q')
				if part == 0 {
					other = 'Q'
				}
				if text[i] == other {
					other++
				}
				parts := []string{m.Method, authority, path}
				parts[part] = text[:i] + string(other) + text[i+1:]
				c := m
				c.Method, c.URL = parts[0], "https://"+parts[1]+"/"+parts[2]+query
				changed = append(changed, c)
			}
		}
	}
	return changed
}
