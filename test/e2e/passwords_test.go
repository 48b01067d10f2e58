package e2e

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// While a client guesses thousands of passwords, which takes minutes to check, the password of
// a client at another address is checked between two guesses.
func TestGuessersDelayNobodyElse(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), 11)
	must(t, err)
	file := filepath.Join(t.TempDir(), "htpasswd")
	must(t, os.WriteFile(file, fmt.Appendf(nil, "images:%s\n", hash), 0o600))
	w := start(t, "clients: {htpasswd: "+file+"}")
	site := newOrigin(t, "http", shop(), nil)

	guesser := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	for i := range 2000 {
		conn, err := guesser.Dial("tcp", w.proxy)
		must(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n", site.URL, base64.StdEncoding.EncodeToString(fmt.Append(nil, "images:", i)))
	}
	got := w.curl("--proxy-user", "images:secret", site.URL+"/products/1")
	if got.status != 200 {
		t.Errorf("the right password gets %d: %s", got.status, got.body)
	}
	if pages := site.pages(); len(pages) != 1 {
		t.Errorf("the site was asked for %q", pages)
	}
}
