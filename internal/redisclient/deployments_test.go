//go:build unix

package redisclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
)

const password = "open:sesame/1#?@ü"

// login is what a URL has before the host, percent-encoded.
func login(user, password string) string { return url.UserPassword(user, password).String() + "@" }

// wantPing asks the server that opts name. fault is a part of the error, "" for none.
func wantPing(t *testing.T, opts redisclient.Options, fault string) {
	t.Helper()
	c, err := redisclient.Open(opts)
	if err == nil {
		defer c.Close()
		err = c.AskAnyway(t.Context(), 10*time.Second, ping)
	}
	switch {
	case fault == "" && err != nil:
		t.Errorf("%s: %v", opts.URL, err)
	case fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
		t.Errorf("%s: got %v, want %s", opts.URL, err, fault)
	case err != nil && strings.Contains(err.Error(), "sesame"):
		t.Errorf("%s: the password is in %v", opts.URL, err)
	}
}

func TestLogins(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket, "--requirepass", password,
		"--user", "fleet", "on", ">"+password, "~robotsproxy:*", "+exists", "+select", "--databases", "2")
	for url, fault := range map[string]string{
		"redis://" + login("default", password) + server.Address:                  "",
		"redis://" + login("", password) + server.Address + "/1":                  "",
		"redis://" + login("fleet", password) + server.Address + "/1":             "",
		"unix://" + login("fleet", password) + socket + "?db=1":                   "",
		"redis://" + login("fleet", password+"x") + server.Address:                "WRONGPASS",
		"redis://" + server.Address:                                               "NOAUTH",
		"redis://" + login("fleet", password) + server.Address + "/2":             "DB index",
		"rediss://" + login("fleet", password) + server.Address:                   "asking the Redis",
		"unix://" + login("fleet", password) + filepath.Join(t.TempDir(), "none"): "no such file",
	} {
		wantPing(t, redisclient.Options{URL: url}, fault)
	}
}

func TestTLS(t *testing.T) {
	cert, key := redistest.Certificate(t)
	otherCert, otherKey := redistest.Certificate(t)
	start := func(auth string) string {
		return redistest.Start(t, "--port", "0", "--tls-port", "PORT", "--tls-auth-clients", auth,
			"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert).Address
	}
	open, strict := start("no"), start("yes")
	for _, test := range []struct {
		opts  redisclient.Options
		fault string
	}{
		{redisclient.Options{URL: "rediss://" + open, CAFile: cert}, ""},
		{redisclient.Options{URL: "rediss://" + open}, "certificate"},
		{redisclient.Options{URL: "rediss://" + open, CAFile: otherCert}, "certificate"},
		{redisclient.Options{URL: "rediss://" + strings.Replace(open, "127.0.0.1", "localhost", 1), CAFile: cert}, "localhost"},
		{redisclient.Options{URL: "redis://" + open}, "asking the Redis"},
		{redisclient.Options{URL: "rediss://" + strict, CAFile: cert, Cert: cert, Key: key}, ""},
		{redisclient.Options{URL: "rediss://" + strict, CAFile: cert}, "certificate required"},
		{redisclient.Options{URL: "rediss://" + strict, CAFile: cert, Cert: otherCert, Key: otherKey}, "unknown certificate authority"},
	} {
		wantPing(t, test.opts, test.fault)
	}
}

// A node of a Cluster that does not say where it is cannot be verified.
func TestClusterOverTLS(t *testing.T) {
	cert, key := redistest.Certificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, bus, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	server := redistest.Start(t, "--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no", "--tls-cluster", "yes",
		"--cluster-enabled", "yes", "--cluster-port", bus, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	node := redis.NewClient(&redis.Options{Addr: server.Address, TLSConfig: &tls.Config{InsecureSkipVerify: true}, DisableIdentity: true})
	defer node.Close()
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the Cluster does not become ready")
		}
	}
	opts := redisclient.Options{URL: "rediss+cluster://" + server.Address, CAFile: cert}
	if err := redistest.Open(t, opts).Check(t.Context()); !errors.As(err, new(*keyerr.Error)) || !strings.Contains(err.Error(), "cluster-announce-ip") {
		t.Errorf("got %v", err)
	}
	if err := node.ConfigSet(t.Context(), "cluster-announce-ip", "127.0.0.1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := redistest.Open(t, opts).Check(t.Context()); err != nil {
		t.Error(err)
	}
	wantPing(t, redisclient.Options{URL: opts.URL}, "certificate")
}

func TestSentinels(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, "fleet", master, "requirepass watch", "user watcher on >watch "+strings.Join(redistest.SentinelRights(t), " "))
	wantPing(t, redisclient.Options{URL: "redis+sentinel://" + sentinel.Address + "?master_name=fleet"}, "NOAUTH")
	wantPing(t, redisclient.Options{URL: "redis+sentinel://" + sentinel.Address + "?master_name=other&sentinel_password=watch"}, "nil")

	// The first Sentinel is down.
	c := redistest.Open(t, redisclient.Options{URL: "redis+sentinel://127.0.0.1:1," + sentinel.Address + "/0?master_name=fleet&sentinel_username=watcher&sentinel_password=watch"})
	write := func(ctx context.Context, rdb redis.Cmdable) error {
		return rdb.Set(ctx, "robotsproxy:test", 1, 0).Err()
	}
	if err := c.AskAnyway(t.Context(), 10*time.Second, write); err != nil {
		t.Fatal(err)
	}
	if n, err := replica.Inspect().Wait(t.Context(), 0, 0).Result(); err == nil || n != 0 {
		t.Errorf("the replica takes writes")
	}
	sentinel.AwaitReplicas("fleet", "watch", 1)
	master.Kill()
	for deadline := time.Now().Add(time.Minute); ; {
		err := c.AskAnyway(t.Context(), time.Second, write)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no failover: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := replica.Inspect().Exists(t.Context(), "robotsproxy:test").Val(); n != 1 {
		t.Error("the new master has not got what was written")
	}
}

func TestCluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	c := redistest.Open(t, redisclient.Options{URL: "redis+cluster://" + nodes[0].Address + "," + nodes[1].Address})
	prefixes := c.Prefixes()
	err := c.AskAnyway(t.Context(), 10*time.Second, func(ctx context.Context, rdb redis.Cmdable) error {
		for _, prefix := range prefixes {
			if err := rdb.Eval(ctx, "redis.call('SET', KEYS[1], 1) return redis.call('SET', KEYS[2], 1)", []string{prefix + "a", prefix + "b"}).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for _, node := range nodes {
		n := node.Inspect().DBSize(t.Context()).Val()
		if n < int64(len(prefixes))/6 {
			t.Errorf("one of three nodes has %d keys of %d", n, 2*len(prefixes))
		}
		all += n
	}
	if all != int64(2*len(prefixes)) {
		t.Errorf("%d keys", all)
	}
	if p := c.Prefix("https://example.com"); !strings.HasPrefix(p, "robotsproxy:{") || p == c.Prefix("https://example.org") {
		t.Errorf("the prefixes are %s and %s", p, c.Prefix("https://example.org"))
	}
}

func TestURLs(t *testing.T) {
	for _, good := range []string{
		"redis://127.0.0.1:6379/0", "redis://localhost", "rediss://user:secret%40@redis.example:6380/15", "unix:///run/redis.sock?db=1",
		"unix://user:secret@/run/redis.sock", "redis://[::1]:6379", "redis://[::1]", "redis://redis.example?db=3",
		"redis+sentinel://a.example,b.example:26380/1?master_name=fleet", "rediss+sentinel://user:secret@[::1]?master_name=fleet&sentinel_username=s&sentinel_password=t%2F",
		"redis+cluster://redis.example", "rediss+cluster://:secret@a.example:7000,b.example,[::1]:7000/0",
	} {
		if err := (redisclient.Options{URL: good}).Validate(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "127.0.0.1:6379", "http://127.0.0.1:6379", "redis://:secret#x@127.0.0.1:6379", "redis://:secret/x@127.0.0.1:6379",
		"redis://:1/secret@127.0.0.1:6379", "redis://:se cret@127.0.0.1", "redis://:secret%@127.0.0.1", "redis://127.0.0.1/secret",
		"redis://127.0.0.1?secret=1", "unix://", "secret://127.0.0.1", "redis://", "redis://:1#secret@127.0.0.1", "redis://:secret@",
		"redis://a.example,b.example", "redis+sentinel://a.example", "redis+sentinel://a.example,?master_name=secret", "redis+cluster://a.example/1",
		"redis+cluster://a.example?master_name=secret", "redis://127.0.0.1/-1", "redis://127.0.0.1/1/2", "redis+unix://x", "redis://127.0.0.1/1?db=secret",
		"unix://host/run/secret",
	} {
		if err := (redisclient.Options{URL: bad}).Validate(); err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "redis_url: ") {
			t.Errorf("%s: got %v", bad, err)
		}
		if c, err := redisclient.Open(redisclient.Options{URL: bad}); c != nil || err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: opened %v, %v", bad, c, err)
		}
	}
}

func TestFilesAreChecked(t *testing.T) {
	cert, key := redistest.Certificate(t)
	const secure = "rediss://redis.example"
	for _, test := range []struct {
		opts redisclient.Options
		want string
	}{
		{redisclient.Options{URL: secure, CAFile: cert, Cert: cert, Key: key}, ""},
		{redisclient.Options{URL: secure, CAFile: "none.pem"}, "redis_ca_file: reading the roots: open none.pem"},
		{redisclient.Options{URL: secure, CAFile: key}, "redis_ca_file: " + key + " holds no certificate"},
		{redisclient.Options{URL: secure, Cert: cert}, "redis_key: there is no key"},
		{redisclient.Options{URL: secure, Key: key}, "redis_cert: there is no certificate"},
		{redisclient.Options{URL: secure, Cert: key, Key: cert}, "redis_cert: reading the certificate for Redis"},
		{redisclient.Options{URL: "redis://redis.example", CAFile: cert}, "redis_ca_file: it is not used"},
		{redisclient.Options{URL: "unix:///run/redis.sock", Cert: cert, Key: key}, "redis_cert: it is not used"},
	} {
		err := test.opts.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}
