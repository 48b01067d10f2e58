package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// checkTime is how long the check of a wrong password takes, by the clock of a synctest bubble.
const checkTime = 50 * time.Millisecond

// passwords are Users whose checks a test counts.
type passwords struct {
	*Users
	mu    sync.Mutex
	tried []string // in order, with the cost of the hash
}

// newPasswords returns the users images and news. The costs of their hashes are one and three
// above the minimum. The password of both is secret.
func newPasswords(t *testing.T) *passwords {
	t.Helper()
	var text string
	for name, cost := range map[string]int{"images": bcrypt.MinCost + 1, "news": bcrypt.MinCost + 3} {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), cost)
		if err != nil {
			t.Fatal(err)
		}
		text += name + ":" + string(hash) + "\n"
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &passwords{Users: u}
	u.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		time.Sleep(checkTime >> (bcrypt.MinCost + 3 - cost))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tried = append(p.tried, fmt.Sprintf("%s %d", password, cost))
		if string(password) == "secret" && cost < bcrypt.MinCost+3 || err != nil {
			return err
		}
		return errors.New("wrong")
	}
	return p
}

// knows calls Know for a request.
func (p *passwords) knows(r *http.Request) bool {
	return p.Know(r.Context(), netip.MustParseAddrPort(r.RemoteAddr).Addr(), r.Header)
}

// from returns a request of a client with credentials.
func from(client, name, password string) *http.Request {
	r := &http.Request{Header: http.Header{}, RemoteAddr: client}
	r.SetBasicAuth(name, password)
	r.Header["Proxy-Authorization"] = r.Header["Authorization"]
	return r
}

// guess makes a client send many wrong passwords at once, until ctx ends.
func (p *passwords) guess(ctx context.Context, client string, many int) {
	for i := range many {
		go p.knows(from(client, "images", fmt.Sprint("guess", i)).WithContext(ctx))
	}
	synctest.Wait()
}

// However many wrong passwords one client sends, another waits for one check of its at most.
func TestWrongPasswordsDelayNobodyElse(t *testing.T) {
	for guesser, clients := range map[string]time.Duration{"192.0.2.1:1": 2, "[2001:db8::1]:1": 1} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			p := newPasswords(t)
			p.guess(ctx, guesser, 5000)
			p.guess(ctx, "[2001:db8::2]:1", 5000) // in the same /64 as the second guesser
			began := time.Now()
			if !p.knows(from("192.0.2.2:1", "images", "secret")) {
				t.Error("the right password is not known")
			}
			// The check under way, one for each other client, and its own.
			if took := time.Since(began); took > (1+clients+1)*checkTime {
				t.Errorf("it took %s while %d clients guess, a check takes %s", took, clients, checkTime)
			}
			began = time.Now()
			if !p.knows(from("192.0.2.2:1", "images", "secret")) || time.Since(began) > 0 {
				t.Error("it was checked again")
			}
			end()
			time.Sleep(10 * checkTime)
			synctest.Wait()
			began = time.Now()
			p.check(t.Context(), netip.MustParseAddr("192.0.2.3"), "images", "another guess", credentialsSum{})
			if took := time.Since(began); took != checkTime {
				t.Errorf("a check takes %s once the others have left, want %s", took, checkTime)
			}
		})
	}
}

// Credentials are checked once, right or wrong, however many requests state them at once.
// Wrong ones are answered late each time.
func TestPasswordIsCheckedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(t)
		for range 2 {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if !p.knows(from("192.0.2.1:1", "images", "secret")) {
						t.Error("the right password is not known")
					}
				})
				all.Go(func() {
					began := time.Now()
					if p.knows(from("192.0.2.2:1", "news", "guess")) {
						t.Error("a wrong password is known")
					}
					if took := time.Since(began); took != wrongDelay {
						t.Errorf("a wrong password is answered after %s", took)
					}
				})
			}
			all.Wait()
		}
		if len(p.tried) != 2 {
			t.Errorf("%q were checked", p.tried)
		}
	})
}

func TestWrongCredentialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(t)
		for i := range 2*maxWrongSums + 1 {
			p.remember(credentialsSum{byte(i), byte(i >> 8)}, false)
			if _, known := p.recall(credentialsSum{}); !known {
				t.Fatalf("one that is sent all the time is forgotten after %d others", i)
			}
		}
		if n := p.wrong.Len(); n != maxWrongSums {
			t.Errorf("%d are remembered, want %d", n, maxWrongSums)
		}
	})
}

// The time that a wrong password takes does not reveal whether the user exists.
func TestUnknownUsersCostTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(name, password string) (total int) {
			p := newPasswords(t)
			p.matches(name, password)
			for _, tried := range p.tried {
				var cost int
				fmt.Sscanf(tried, password+" %d", &cost)
				total += 1 << cost
			}
			return total
		}
		want := 1 << (bcrypt.MinCost + 3)
		for _, name := range []string{"images", "news", "nobody", ""} {
			if got := work(name, "wrong"); got != want {
				t.Errorf("%q: %d rounds, want %d", name, got, want)
			}
		}
	})
	if cost, err := bcrypt.Cost(dummyHash(12)); err != nil || cost != 12 {
		t.Errorf("the dummy costs %d: %v", cost, err)
	}
	if err := bcrypt.CompareHashAndPassword(dummyHash(bcrypt.MinCost), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Errorf("the dummy is not compared: %v", err)
	}
}

// What is remembered of credentials holds for no others with the same octets.
func TestCredentialsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(t)
		if !p.knows(from("192.0.2.1:1", "images", "secret")) {
			t.Fatal("the right password is not known")
		}
		if p.knows(from("192.0.2.1:1", "images\x00secret", "")) || p.knows(from("192.0.2.1:1", "", "images\x00secret")) {
			t.Error("other credentials are known")
		}
	})
}
