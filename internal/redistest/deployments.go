//go:build unix

package redistest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// StartReplica starts a read-only replica of a server that asks for no password, and returns
// when the two are in step.
func StartReplica(t testing.TB, of *Server) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(of.Address)
	s := Start(t, "--replicaof", host, port)
	await(t, func(ctx context.Context) (string, bool) {
		info := s.Inspect().Info(ctx, "replication").Val()
		return info, strings.Contains(info, "master_link_status:up")
	})
	return s
}

// StartSentinel starts a Sentinel that watches a server under a name and makes a replica the
// master when the server is down. It knows the replica already when StartSentinel returns. Further
// lines are of its configuration; those about the master have its name after the first word.
func StartSentinel(t testing.TB, name string, master *Server, lines ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Address)
	lines = append([]string{
		"sentinel monitor " + name + " " + host + " " + port + " 1",
		"sentinel down-after-milliseconds " + name + " 500",
		"sentinel failover-timeout " + name + " 2000",
	}, lines...)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return startReady(t, "+monitor master", file, "--sentinel", "--port", "PORT")
}

// AwaitReplicas returns when a Sentinel with a password knows that many replicas of a master.
func (s *Server) AwaitReplicas(name, password string, n int) {
	s.t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Address, Password: password, DisableIdentity: true})
	s.t.Cleanup(func() { c.Close() })
	await(s.t, func(ctx context.Context) (string, bool) {
		known, err := c.Replicas(ctx, name).Result()
		return fmt.Sprint(known, err), len(known) >= n && known[0]["master-link-status"] == "ok"
	})
}

// StartCluster starts a Cluster of three masters, each with these further arguments.
func StartCluster(t testing.TB, args ...string) []*Server {
	t.Helper()
	var nodes []*Server
	var addresses []string
	for range 3 {
		node := Start(t, append([]string{"--port", "PORT", "--cluster-enabled", "yes", "--cluster-port", freePort(t)}, args...)...)
		nodes, addresses = append(nodes, node), append(addresses, node.Address)
	}
	create := append([]string{"--cluster", "create"}, append(addresses, "--cluster-yes")...)
	if out, err := exec.Command("redis-cli", create...).CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	for _, node := range nodes {
		await(t, func(ctx context.Context) (string, bool) {
			info := node.Inspect().ClusterInfo(ctx).Val()
			return info, strings.Contains(info, "cluster_state:ok")
		})
	}
	return nodes
}

// await returns when a condition holds; its text says what is there instead.
func await(t testing.TB, is func(context.Context) (string, bool)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		text, ok := is(ctx)
		if ok {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("it is not so within a minute: %s", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Certificate makes the files of a certificate for 127.0.0.1 that signs itself, for servers
// and clients.
func Certificate(t testing.TB) (cert, key string) {
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
