package access

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHtpasswdThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]string{
		"":                  "holds no user",
		"images:plain\n":    ":1: ",
		"# x\nimages\n":     ":2: ",
		":$2y$05$abcdefg\n": ":1: ",
		"a:$apr1$x$y\n":     "htpasswd -B",
	} {
		file := filepath.Join(dir, "htpasswd")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Options{Htpasswd: file}.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "htpasswd: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("a file of %q: %v, want %q", content, err, want)
		}
	}
	if err := (Options{Htpasswd: filepath.Join(dir, "none")}).Validate(); err == nil || !strings.Contains(err.Error(), "htpasswd -cB") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	some := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, test := range []struct {
		address string
		clients Options
		want    string
	}{
		{"127.0.0.1:8080", Options{Allow: all}, ""},
		{"[::1]:8080", Defaults(), ""},
		{"0.0.0.0:8080", Defaults(), "clients.allow"},
		{"[::]:8080", Options{Allow: some}, ""},
		{"192.0.2.1:8080", Options{Allow: all}, "open proxy"},
		{"192.0.2.1:8080", Options{Allow: all, Htpasswd: "x"}, ""},
	} {
		addr, err := net.ResolveTCPAddr("tcp", test.address)
		if err != nil {
			t.Fatal(err)
		}
		if got := test.clients.Warning(addr); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("the warning for %s and %v is %q, want %q", test.address, test.clients.Allow, got, test.want)
		}
	}
}
