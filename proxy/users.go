package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// users are those who may use the proxy by their password. bcrypt is meant to be
// slow, so one password is checked at a time, and one client address waits with one
// only: whoever guesses keeps nobody waiting but those at the same address.
type users struct {
	hashes  map[string][]byte
	cost    int                               // the highest of hashes
	compare func(hash, password []byte) error // bcrypt's

	checking chan struct{} // held for a check

	mu    sync.Mutex
	lanes map[netip.Addr]*lane
	right map[pairSum]struct{} // of users in the file alone, so it stays small
	wrong map[pairSum]struct{}
}

// pairSum is the SHA-256 of a user and a password.
type pairSum = [sha256.Size]byte

// lane is where the checks of one client address wait for each other.
type lane struct {
	turn   chan struct{} // held by the one that may go on
	wanted int           // by how many; without any it is removed
}

const (
	// wrongDelay is how long an answer to a wrong password takes at least.
	wrongDelay = 500 * time.Millisecond
	// maxWrong bounds the wrong pairs that are remembered. After so many it starts
	// anew.
	maxWrong = 4096
)

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
	u := &users{
		hashes: map[string][]byte{}, compare: bcrypt.CompareHashAndPassword, checking: make(chan struct{}, 1),
		lanes: map[netip.Addr]*lane{}, right: map[pairSum]struct{}{}, wrong: map[pairSum]struct{}{},
	}
	lines := bufio.NewScanner(f)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, found := strings.Cut(line, ":")
		cost, err := bcrypt.Cost([]byte(hash))
		if !found || name == "" || err != nil {
			return nil, fmt.Errorf("%s:%d: this is no user with a bcrypt hash; write it with htpasswd -B", file, number)
		}
		u.hashes[name] = []byte(hash)
		u.cost = max(u.cost, cost)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	if len(u.hashes) == 0 {
		return nil, errors.New(file + " holds no user; add one with htpasswd -B")
	}
	return u, nil
}

// knows reports whether a request comes from a user with the right password. bcrypt
// is paid once for each pair.
func (u *users) knows(r *http.Request) bool {
	if u == nil {
		return true
	}
	name, password, sent := proxyCredentials(r.Header)
	if !sent {
		return false
	}
	sum := sha256.Sum256([]byte(name + ":" + password)) // no name has a colon (RFC 7617 2)
	if right, _ := u.recall(sum); right {
		return true
	}
	delay := time.After(wrongDelay)
	if u.check(r.Context(), clientOf(r), name, password, sum) {
		return true
	}
	select {
	case <-delay:
	case <-r.Context().Done():
	}
	return false
}

// check waits for a check of the pair, unless it is known by then. It is not right if
// ctx ends before.
func (u *users) check(ctx context.Context, client netip.Addr, name, password string, sum pairSum) bool {
	if right, known := u.recall(sum); known {
		return right
	}
	leave, err := u.enter(ctx, client)
	if err != nil {
		return false
	}
	defer leave()
	if right, known := u.recall(sum); known { // the same client asks many times at once
		return right
	}
	right := u.matches(name, password)
	u.remember(sum, right)
	return right
}

// enter waits until a client may have a password checked. The caller calls leave
// after that, unless ctx has ended.
func (u *users) enter(ctx context.Context, client netip.Addr) (leave func(), err error) {
	if client.Is6() { // who has one address has all of its /64
		network, _ := client.WithZone("").Prefix(64)
		client = network.Addr()
	}
	l := u.lane(client, 1)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		u.lane(client, -1)
		return nil, ctx.Err()
	}
	leaveLane := func() {
		<-l.turn
		u.lane(client, -1)
	}
	select {
	case u.checking <- struct{}{}:
		return func() { <-u.checking; leaveLane() }, nil
	case <-ctx.Done():
		leaveLane()
		return nil, ctx.Err()
	}
}

// lane returns a client's lane, after so many more (or fewer) want it.
func (u *users) lane(client netip.Addr, more int) *lane {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.lanes[client]
	if l == nil {
		l = &lane{turn: make(chan struct{}, 1)}
		u.lanes[client] = l
	}
	if l.wanted += more; l.wanted == 0 {
		delete(u.lanes, client)
	}
	return l
}

// recall reports what is remembered of a pair.
func (u *users) recall(sum pairSum) (right, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, right = u.right[sum]
	_, wrong := u.wrong[sum]
	return right, right || wrong
}

func (u *users) remember(sum pairSum, right bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if right {
		u.right[sum] = struct{}{}
		return
	}
	if len(u.wrong) >= maxWrong {
		clear(u.wrong)
	}
	u.wrong[sum] = struct{}{}
}

// matches compares a password with the user's hash. A wrong one costs the same
// whether there is such a user or not, and whatever the cost of the user's hash:
// bcrypt of cost n takes twice as long as of n-1, so each hash that is added doubles
// what has been paid, up to the highest cost in the file.
func (u *users) matches(name, password string) bool {
	hash, known := u.hashes[name]
	if !known {
		u.compare(dummyHash(u.cost), []byte(password))
		return false
	}
	if u.compare(hash, []byte(password)) == nil {
		return true
	}
	cost, _ := bcrypt.Cost(hash)
	for ; cost < u.cost; cost++ {
		u.compare(dummyHash(cost), []byte(password))
	}
	return false
}

// dummyHash is of no password that anybody knows.
func dummyHash(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, strings.Repeat(".", 53)) // salt and hash
}

// proxyCredentials are those of Proxy-Authorization's Basic scheme (RFC 7617).
func proxyCredentials(h http.Header) (name, password string, sent bool) {
	authorization := http.Request{Header: http.Header{"Authorization": h["Proxy-Authorization"]}}
	return authorization.BasicAuth()
}
