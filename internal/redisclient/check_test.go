//go:build unix

package redisclient_test

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
)

// newUser makes a user on a server.
func newUser(t *testing.T, server *redistest.Server, name string, rights []string) {
	t.Helper()
	rules := append([]string{"reset", "on", ">sesame"}, rights...)
	if err := server.Inspect().ACLSetUser(t.Context(), name, rules...).Err(); err != nil {
		t.Fatal(err)
	}
}

// The rights that docs/deploy.md names are enough, and each is needed.
func TestRights(t *testing.T) {
	server := redistest.Start(t)
	all := redistest.Rights(t)
	newUser(t, server, "robotsproxy", all)
	url := "redis://robotsproxy:sesame@" + server.Address
	if err := redistest.Open(t, redisclient.Options{URL: url}).Check(t.Context()); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	for i, right := range all {
		if right == "+select" {
			continue // of a database other than 0
		}
		newUser(t, server, "robotsproxy", slices.Delete(slices.Clone(all), i, i+1))
		err := redistest.Open(t, redisclient.Options{URL: url}).Check(t.Context())
		command := strings.ToUpper(strings.TrimPrefix(right, "+"))
		if strings.HasPrefix(right, "~") {
			command = "NOPERM"
		}
		if !errors.As(err, new(*keyerr.Error)) || !strings.Contains(strings.ToUpper(err.Error()), command) {
			t.Errorf("without %s: %v", right, err)
		}
	}
	newUser(t, server, "robotsproxy", slices.DeleteFunc(all, func(right string) bool { return right == "+select" }))
	if err := redistest.Open(t, redisclient.Options{URL: url + "/1"}).Check(t.Context()); !errors.As(err, new(*keyerr.Error)) {
		t.Errorf("without +select: %v", err)
	}
}

func TestRightsInACluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	url := "redis+cluster://robotsproxy:sesame@" + nodes[0].Address
	setUsers := func(rights []string) {
		for _, node := range nodes {
			newUser(t, node, "robotsproxy", rights)
		}
	}
	all := append(redistest.Rights(t), redistest.ClusterRights(t)...)
	setUsers(all)
	if err := redistest.Open(t, redisclient.Options{URL: url}).Check(t.Context()); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	for _, right := range all[len(all)-2:] {
		setUsers(slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right }))
		if err := redistest.Open(t, redisclient.Options{URL: url}).Check(t.Context()); !errors.As(err, new(*keyerr.Error)) {
			t.Errorf("without %s: %v", right, err)
		}
	}
}

// What someone has to change is told from what passes.
func TestCheck(t *testing.T) {
	cert, key := redistest.Certificate(t)
	other, _ := redistest.Certificate(t)
	server := redistest.Start(t, "--requirepass", "sesame")
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	secure := redistest.Start(t, "--port", "0", "--tls-port", "PORT", "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	sentinel := redistest.StartSentinel(t, "fleet", master)
	node := redistest.StartCluster(t)[0]
	full := redistest.Start(t, "--maxmemory", "1")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()

	for _, test := range []struct {
		opts  redisclient.Options
		lasts bool
		want  string // a part of the error; "" for none
	}{
		{redisclient.Options{URL: "redis://:sesame@" + server.Address}, false, ""},
		{redisclient.Options{URL: "redis://:wrong@" + server.Address}, true, "mend the user or the password"},
		{redisclient.Options{URL: "redis://" + server.Address}, true, "put a user and a password into it"},
		{redisclient.Options{URL: "redis://:sesame@" + server.Address + "/16"}, true, "name a database"},
		{redisclient.Options{URL: "rediss://" + secure.Address, CAFile: cert, Cert: cert, Key: key}, false, ""},
		{redisclient.Options{URL: "rediss://" + secure.Address, CAFile: other, Cert: cert, Key: key}, true, "redis_ca_file"},
		{redisclient.Options{URL: "rediss://" + secure.Address, CAFile: cert}, true, "redis_cert"},
		{redisclient.Options{URL: "redis+sentinel://" + sentinel.Address + "?master_name=fleet"}, false, ""},
		{redisclient.Options{URL: "redis+sentinel://" + sentinel.Address + "?master_name=other"}, true, "mend its master_name"},
		{redisclient.Options{URL: "redis+sentinel://" + master.Address + "?master_name=fleet"}, true, "no Sentinel"},
		{redisclient.Options{URL: "redis://" + sentinel.Address}, true, "redis+sentinel"},
		{redisclient.Options{URL: "redis+cluster://" + node.Address}, false, ""},
		{redisclient.Options{URL: "redis+cluster://" + master.Address}, true, "begin redis_url with redis"},
		{redisclient.Options{URL: "redis://" + node.Address}, true, "redis+cluster"},
		{redisclient.Options{URL: "redis://" + replica.Address}, false, "it is a replica"},
		{redisclient.Options{URL: "redis://" + full.Address}, false, "OOM"},
		{redisclient.Options{URL: "redis://" + gone.Addr().String()}, false, "connection refused"},
	} {
		err := redistest.Open(t, test.opts).Check(t.Context())
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) || errors.As(err, new(*keyerr.Error)) != test.lasts {
			t.Errorf("%s: got %v, want %q", test.opts.URL, err, test.want)
		}
	}
}
