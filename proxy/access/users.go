// Package access says who may use the proxy: clients at which addresses, on which connections,
// and which users with their passwords. [Options] are the operator's answer, [Users] those of
// an htpasswd file.
package access

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

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/crypto/bcrypt"

	"robotsproxy/internal/fair"
)

// Users are the users in a file. A nil *Users knows everyone and wants no password. Users
// are safe for concurrent use.
//
// A bcrypt check is slow by design. So Users run one check at a time, remember each result,
// and have the addresses of clients take turns: whoever guesses passwords delays nobody but
// clients at the same address.
type Users struct {
	hashes  map[string][]byte
	cost    int                               // the highest of hashes
	compare func(hash, password []byte) error // bcrypt's

	checks *fair.Slots[netip.Prefix] // one, for a check

	mu    sync.Mutex
	right map[credentialsSum]struct{}              // at most one for each user in the file
	wrong *simplelru.LRU[credentialsSum, struct{}] // at most maxWrongSums
}

// credentialsSum is the SHA-256 of a user's name and password.
type credentialsSum = [sha256.Size]byte

const (
	// wrongDelay is the shortest time in which a wrong password is answered.
	wrongDelay = 500 * time.Millisecond
	// maxWrongSums bounds the wrong credentials that are remembered. Those that nobody has
	// sent for longest are forgotten first.
	maxWrongSums = 4096
)

// Read reads an htpasswd file with bcrypt hashes, as `htpasswd -B` writes it. If file is "",
// it returns nil, which knows everyone.
func Read(file string) (*Users, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w; make it with htpasswd -cB FILE USER", err)
	}
	defer f.Close()
	wrong, err := simplelru.NewLRU[credentialsSum, struct{}](maxWrongSums, nil)
	if err != nil {
		return nil, err
	}
	u := &Users{
		hashes: map[string][]byte{}, compare: bcrypt.CompareHashAndPassword, checks: fair.New[netip.Prefix](1),
		right: map[credentialsSum]struct{}{}, wrong: wrong,
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

// Know reports whether the header h of a client's request states a user of the file and the
// right password. To answer wrong ones takes at least half a second, unless ctx ends first.
func (u *Users) Know(ctx context.Context, client netip.Addr, h http.Header) bool {
	if u == nil {
		return true
	}
	name, password, sent := Credentials(h)
	return sent && u.KnowPassword(ctx, client, name, password)
}

// KnowPassword is [Users.Know] for a name and a password that a client states otherwise.
func (u *Users) KnowPassword(ctx context.Context, client netip.Addr, name, password string) bool {
	switch {
	case u == nil:
		return true
	case strings.Contains(name, ":"): // no name in the file has one, and sums would not be unique
		return false
	}
	sum := sha256.Sum256([]byte(name + ":" + password))
	if right, _ := u.recall(sum); right {
		return true
	}
	delay := time.After(wrongDelay)
	if u.check(ctx, client, name, password, sum) {
		return true
	}
	select {
	case <-delay:
	case <-ctx.Done():
	}
	return false
}

// check reports whether credentials are right. It checks them only if no other check of
// them has ended meanwhile. If ctx ends first, it reports false.
func (u *Users) check(ctx context.Context, client netip.Addr, name, password string, sum credentialsSum) bool {
	if right, known := u.recall(sum); known {
		return right
	}
	if err := u.checks.Acquire(ctx, fair.Client(client)); err != nil {
		return false
	}
	defer u.checks.Release()
	if right, known := u.recall(sum); known { // a client may send many requests at once
		return right
	}
	right := u.matches(name, password)
	u.remember(sum, right)
	return right
}

// recall reports what is remembered of credentials.
func (u *Users) recall(sum credentialsSum) (right, known bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, right = u.right[sum]
	_, wrong := u.wrong.Get(sum)
	return right, right || wrong
}

func (u *Users) remember(sum credentialsSum, right bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if right {
		u.right[sum] = struct{}{}
		return
	}
	u.wrong.Add(sum, struct{}{})
}

// matches compares a password with the user's hash. A wrong one takes the same work whether
// the user exists or not, and whatever the cost of the user's hash. bcrypt of cost n takes
// twice as long as of n-1, so one dummy comparison for each cost up to the highest in the
// file makes up the difference.
func (u *Users) matches(name, password string) bool {
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

// dummyHash returns a hash of the given cost that no known password matches.
func dummyHash(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, strings.Repeat(".", 53)) // salt and hash
}

// Credentials returns the user and password that Proxy-Authorization states in the Basic
// scheme (RFC 7617). sent is false if it states none.
func Credentials(h http.Header) (user, password string, sent bool) {
	authorization := http.Request{Header: http.Header{"Authorization": h["Proxy-Authorization"]}}
	return authorization.BasicAuth()
}
