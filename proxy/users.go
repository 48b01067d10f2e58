package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// users are those who may use the proxy by their password.
type users struct {
	hashes map[string][]byte

	checking chan struct{} // lets one password be checked at a time: bcrypt is meant to be slow

	mu       sync.Mutex
	verified map[[sha256.Size]byte]struct{} // sums of credentials that are right
}

// wrongDelay is how long an answer to a wrong password takes at least.
const wrongDelay = 500 * time.Millisecond

// readUsers reads an htpasswd file with bcrypt hashes, as `htpasswd -B` writes it.
// No file is no users to check: nil.
func readUsers(file string) (*users, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w; make it with htpasswd -cB FILE USER", err)
	}
	defer f.Close()
	u := &users{hashes: map[string][]byte{}, checking: make(chan struct{}, 1), verified: map[[sha256.Size]byte]struct{}{}}
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, found := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); !found || name == "" || err != nil {
			return nil, fmt.Errorf("%s:%d: this is no user with a bcrypt hash; write it with htpasswd -B", file, number)
		}
		u.hashes[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(u.hashes) == 0 {
		return nil, errors.New(file + " holds no user; add one with htpasswd -B")
	}
	return u, nil
}

// knows reports whether a request comes from a user with the right password.
// bcrypt is paid once for each pair, a wrong one takes its time.
func (u *users) knows(r *http.Request) bool {
	if u == nil {
		return true
	}
	name, password, sent := proxyCredentials(r.Header)
	if !sent {
		return false
	}
	sum := sha256.Sum256([]byte(name + "\x00" + password))
	u.mu.Lock()
	_, right := u.verified[sum]
	u.mu.Unlock()
	if right {
		return true
	}
	wrong := time.After(wrongDelay)
	if u.check(r.Context(), name, password) {
		u.mu.Lock()
		u.verified[sum] = struct{}{} // of users in the file alone, so it stays small
		u.mu.Unlock()
		return true
	}
	select {
	case <-wrong:
	case <-r.Context().Done():
	}
	return false
}

func (u *users) check(ctx context.Context, name, password string) bool {
	select {
	case u.checking <- struct{}{}:
		defer func() { <-u.checking }()
	case <-ctx.Done():
		return false
	}
	hash, known := u.hashes[name]
	return known && bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
}

// proxyCredentials are those of Proxy-Authorization's Basic scheme (RFC 7617).
func proxyCredentials(h http.Header) (name, password string, sent bool) {
	authorization := http.Request{Header: http.Header{"Authorization": h["Proxy-Authorization"]}}
	return authorization.BasicAuth()
}
