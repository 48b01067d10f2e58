//go:build clients

package sign

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"robotsproxy/internal/signtest"
	"robotsproxy/robots"
)

// faults returns what libraries that others wrote find wrong with each message; "" for
// nothing.
func faults(t *testing.T, messages []signtest.Message) []string {
	t.Helper()
	found, err := signtest.Libraries(t.Context(), filepath.Join("..", "..", ".clients", "node_modules"), messages)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// signed returns a signed request. The libraries tell the time by the clock.
func signed(t *testing.T, form Form, method string, to robots.Target) signtest.Message {
	t.Helper()
	opts := Defaults()
	opts.Agent, opts.Lifetime = "https://bot.example.org", time.Hour
	s, err := NewSigner(another, opts, time.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := s.Sign(method, to, form)
	if err != nil {
		t.Fatal(err)
	}
	m := signtest.Message{Check: form.String(), Method: method, URL: to.String(), Headers: http.Header{}, Keys: JWKSet([]*Key{another})}
	fields.Set(m.Headers)
	return m
}

func TestLibrariesVerifyRequests(t *testing.T) {
	var messages []signtest.Message
	add := func(form Form, method, url string) {
		messages = append(messages, signed(t, form, method, target(t, url)))
	}
	for _, form := range []Form{Dictionary, String} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			add(form, method, "https://example.com/products/lamp?color=red&size=2")
		}
		for _, authority := range []string{"http://example.com", "http://EXAMPLE.com:80", "https://example.com:443", "https://example.com:8443", "http://127.0.0.1:81", "https://[2001:DB8::1]:8443", "https://BÜCHER.example", "https://bücher.example:444"} {
			add(form, "GET", authority)
			add(form, "GET", authority+"?q")
			add(form, "GET", authority+"/a")
		}
		for _, path := range []string{"//", "/a//b/", "/%7Ea/%2f/%C3%A4%20", "/a;p=1,2/:@!$&'()*+=", "/robots.txt", "/~a_b-c.d", "/%", "/a?b?c/d#e"} {
			add(form, "GET", "https://example.com"+path)
		}
	}
	// web-bot-auth takes the path from a URL that Node has normalized, so only the other
	// library sees these as they are sent.
	for _, path := range []string{"/a/../b", "/.", "/%2e%2E/", "/\"a\"", "/<{^`|}>", "/[a]/\\"} {
		add(Dictionary, "GET", "https://example.com"+path)
	}
	for i := range 500 {
		add(Form(i%2), "GET", fmt.Sprintf("https://host%d.example:%d/page/%d?n=%[1]d", i, 1024+i, i))
	}
	for i, fault := range faults(t, messages) {
		if fault != "" {
			t.Errorf("%s of %s %s: %s\n%q", messages[i].Check, messages[i].Method, messages[i].URL, fault, messages[i].Headers)
		}
	}
}

func TestLibrariesRefuseChangedRequests(t *testing.T) {
	var messages []signtest.Message
	for _, form := range []Form{Dictionary, String} {
		add := func(change func(m *signtest.Message)) {
			m := signed(t, form, "GET", target(t, "https://example.com:8443/page?q"))
			change(&m)
			messages = append(messages, m)
		}
		for i := range len("GET") {
			add(func(m *signtest.Message) { m.Method = m.Method[:i] + "X" + m.Method[i+1:] })
		}
		for i := range len("https://example.com:8443/page") {
			if i < len("https://") || strings.ContainsRune(":/", rune("https://example.com:8443/page"[i])) {
				continue
			}
			add(func(m *signtest.Message) { m.URL = m.URL[:i] + "7" + m.URL[i+1:] })
		}
		add(func(m *signtest.Message) { m.URL = strings.Replace(m.URL, "/page", "/page/", 1) })
		add(func(m *signtest.Message) { m.URL = strings.Replace(m.URL, ":8443", "", 1) })
		for name, before := range map[string]string{"Signature-Agent": "https://", "Signature-Input": `nonce="`, "Signature": "=:"} {
			add(func(m *signtest.Message) {
				value := []byte(m.Headers.Get(name))
				at := bytes.Index(value, []byte(before)) + len(before)
				if value[at] == 'A' {
					value[at] = 'B'
				} else {
					value[at] = 'A'
				}
				m.Headers.Set(name, string(value))
			})
		}
		add(func(m *signtest.Message) { // another key by the same name
			m.Keys = bytes.ReplaceAll(JWKSet([]*Key{published}), []byte(published.ID()), []byte(another.ID()))
		})
	}
	for i, fault := range faults(t, messages) {
		if fault == "" {
			t.Errorf("%s is taken for %s %s:\n%q", messages[i].Check, messages[i].Method, messages[i].URL, messages[i].Headers)
		}
	}
}

func TestLibraryVerifiesDirectories(t *testing.T) {
	var messages []signtest.Message
	for _, keys := range [][]*Key{{another}, {another, published}} {
		origin := target(t, "https://BOT.example.org:8443").Origin
		d, err := SignDirectory(keys, origin, time.Now().Add(-time.Second), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		m := signtest.Message{Check: "directory", URL: origin.String() + DirectoryPath, Headers: http.Header{}, Keys: JWKSet(keys), Body: string(d.Body)}
		d.Set(m.Headers)
		messages = append(messages, m)
		m.URL = "https://elsewhere.example/"
		messages = append(messages, m)
	}
	for i, fault := range faults(t, messages) {
		if elsewhere := i%2 == 1; (fault != "") != elsewhere {
			t.Errorf("%s: %q\n%q", messages[i].URL, fault, messages[i].Headers)
		}
	}
}
