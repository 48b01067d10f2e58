//go:build unix

package redisclient_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ping(ctx context.Context, rdb *redis.Client) error { return rdb.Ping(ctx).Err() }

// A server that doesn't answer costs one wait. Then it is left alone for the cooldown, but
// by those who ask anyway, and an answer ends that.
func TestServerThatDoesNotAnswer(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Timeout = 50 * time.Millisecond
	c.Cooldown = time.Hour
	server.Pause()
	if err := c.Ask(t.Context(), ping); err == nil || errors.Is(err, redisclient.ErrAway) || !strings.Contains(err.Error(), server.Address) {
		t.Errorf("the first: %v", err)
	}
	for range 1000 {
		if err := c.Ask(t.Context(), func(context.Context, *redis.Client) error {
			t.Error("it is asked")
			return nil
		}); !errors.Is(err, redisclient.ErrAway) {
			t.Fatalf("the next: %v", err)
		}
	}
	if err := c.AskAnyway(t.Context(), c.Timeout, ping); err == nil || errors.Is(err, redisclient.ErrAway) {
		t.Errorf("one who asks anyway: %v", err)
	}
	server.Continue()
	if err := c.AskAnyway(t.Context(), 10*time.Second, ping); err != nil {
		t.Fatal(err)
	}
	asked := false
	if err := c.Ask(t.Context(), func(context.Context, *redis.Client) error {
		asked = true
		return nil
	}); err != nil || !asked {
		t.Errorf("after an answer: %v", err)
	}
}

// When the cooldown is over, one question finds out for all whether the server is back.
func TestOneTriesForAll(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Cooldown = time.Nanosecond
	server.Kill()
	if err := c.Ask(t.Context(), ping); err == nil {
		t.Fatal("a server that was killed answers")
	}
	c.Cooldown = time.Hour // nobody asks at the moment
	var asked atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			c.Ask(t.Context(), func(ctx context.Context, rdb *redis.Client) error {
				asked.Add(1)
				return ping(ctx, rdb)
			})
		})
	}
	all.Wait()
	if asked.Load() != 1 {
		t.Errorf("%d asked", asked.Load())
	}
	server.Restart()
	if err := c.AskAnyway(t.Context(), c.Timeout, ping); err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// An error reply is an answer: the server is there.
func TestErrorRepliesAreAnswers(t *testing.T) {
	c := redistest.Start(t).Client()
	c.Cooldown = time.Hour
	for range 3 {
		var reply redis.Error
		err := c.Ask(t.Context(), func(ctx context.Context, rdb *redis.Client) error {
			return rdb.Do(ctx, "NONSENSE").Err()
		})
		if !errors.As(err, &reply) {
			t.Fatalf("got %v", err)
		}
	}
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// A caller who leaves says nothing about the server.
func TestCallerLeaves(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Cooldown = time.Hour
	server.Pause()
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, leave)
	if err := c.Ask(ctx, ping); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	server.Continue()
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// A question that times out is asked again of a server that answers others meanwhile.
func TestSlowAnswers(t *testing.T) {
	c := redistest.Start(t).Client()
	c.Cooldown = time.Hour
	tries := 0
	err := c.Ask(t.Context(), func(context.Context, *redis.Client) error {
		if tries++; tries < 3 {
			if err := c.Ask(t.Context(), ping); err != nil {
				t.Error(err)
			}
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestTLSAndPassword(t *testing.T) {
	cert, key := certificate(t)
	const password = "open:sesame/1#?@ü"
	server := redistest.Start(t, "--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no",
		"--tls-cert-file", cert, "--tls-key-file", key, "--requirepass", password)
	login := "://" + url.UserPassword("default", password).String() // percent-encoded
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	trusting := x509.NewCertPool()
	trusting.AppendCertsFromPEM(text)
	for _, test := range []struct {
		url   string
		roots *x509.CertPool
		fault string
	}{
		{"rediss" + login + "@" + server.Address, trusting, ""},
		{"rediss" + strings.Replace(login, "default", "", 1) + "@" + server.Address + "/1", trusting, ""},
		{"rediss" + login + "@" + server.Address, nil, "certificate"},
		{"rediss" + login + "x@" + server.Address, trusting, "WRONGPASS"},
		{"rediss://" + server.Address, trusting, "NOAUTH"},
		{"redis" + login + "@" + server.Address, trusting, "asking the Redis"},
	} {
		c, err := redisclient.OpenTrusting(test.url, test.roots)
		if err != nil {
			t.Fatal(err)
		}
		err = c.AskAnyway(t.Context(), 10*time.Second, ping)
		if test.fault == "" && err != nil {
			t.Errorf("%s: %v", test.url, err)
		}
		if test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault) || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%s: got %v", test.url, err)
		}
		c.Close()
	}
}

// certificate makes one that signs itself.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	save := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return save("cert.pem", "CERTIFICATE", der), save("key.pem", "PRIVATE KEY", secret)
}

func TestURLs(t *testing.T) {
	for _, good := range []string{
		"redis://127.0.0.1:6379/0", "redis://localhost", "rediss://user:secret%40@redis.example:6380/15", "unix:///run/redis.sock?db=1",
		"redis://[::1]:6379",
	} {
		if err := redisclient.CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "127.0.0.1:6379", "http://127.0.0.1:6379", "redis://:secret#x@127.0.0.1:6379", "redis://:secret/x@127.0.0.1:6379",
		"redis://:1/secret@127.0.0.1:6379", "redis://:se cret@127.0.0.1", "redis://:secret%@127.0.0.1", "redis://127.0.0.1/secret",
		"redis://127.0.0.1?secret=1", "unix://", "secret://127.0.0.1",
	} {
		if err := redisclient.CheckURL(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", bad, err)
		}
		if c, err := redisclient.Open(bad); c != nil || err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: opened %v, %v", bad, c, err)
		}
	}
}
