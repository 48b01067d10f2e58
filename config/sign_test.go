package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"robotsproxy/config/strictyaml"
	"robotsproxy/proxy/sign"
)

// newKeys returns a folder of keys: a.pem and b.pem, which can sign, again.pem, which holds the
// same key as a.pem, and files that must not sign.
func newKeys(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	write := func(name string, text []byte, mode fs.FileMode) {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	a, b := seedKey(1), seedKey(2)
	write("a.pem", a.PEM(), 0o600)
	write("again.pem", a.PEM(), 0o600)
	write("b.pem", b.PEM(), 0o640)
	write("open.pem", b.PEM(), 0o644)
	write("empty.pem", nil, 0o600)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	write("rsa.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
	seed, err := base64.RawURLEncoding.DecodeString("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU") // RFC 9421 section B.1.4
	if err != nil {
		t.Fatal(err)
	}
	write("published.pem", sign.NewKey(ed25519.NewKeyFromSeed(seed)).PEM(), 0o600)
	return folder
}

func seedKey(first byte) *sign.Key {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = first
	return sign.NewKey(ed25519.NewKeyFromSeed(seed))
}

// loadSign loads a file in a folder of keys, whose default_identity has this section "sign".
func loadSign(folder, section string) (Config, error) {
	text := "default_identity:\n  sign: {" + section + "}\n"
	return Parse(Default(), filepath.Join(folder, "FILE"), []byte(text))
}

func TestErrorsOfSigning(t *testing.T) {
	folder := newKeys(t)
	const agent = ", agent: 'https://bot.example.org'"
	for _, test := range []struct {
		section string
		want    []string // how the messages begin, after FILE:, and what else they say
	}{
		{"agent: 'https://bot.example.org'", []string{"2:3: default_identity.sign.keys: there is no key to sign with; make one with robotsproxy keys new FILE"}},
		{"keys: []" + agent, []string{"2:16: default_identity.sign.keys: there is no key"}},
		{"keys: a.pem" + agent, []string{"2:16: default_identity.sign.keys: this must be a list"}},
		{"keys: [none.pem]" + agent, []string{"2:17: default_identity.sign.keys[0]: read the signing key: open FOLDER/none.pem: no such file or directory; make one with robotsproxy keys new FOLDER/none.pem"}},
		{"keys: [a.pem, open.pem]" + agent, []string{"2:24: default_identity.sign.keys[1]: read the signing key: everyone on this machine may open FOLDER/open.pem, and with it pose as your bot; chmod 600 it"}},
		{"keys: [rsa.pem]" + agent, []string{"2:17: default_identity.sign.keys[0]: read the signing key FOLDER/rsa.pem: it is a *rsa.PrivateKey, and only an Ed25519 key can sign; make one with"}},
		{"keys: [empty.pem]" + agent, []string{"2:17: default_identity.sign.keys[0]: read the signing key FOLDER/empty.pem: it has no PEM private key; make one with"}},
		{"keys: [published.pem]" + agent, []string{"2:17: default_identity.sign.keys[0]: read the signing key FOLDER/published.pem: it is the test key that RFC 9421 publishes"}},
		{"keys: [a.pem, b.pem, a.pem]" + agent, []string{"2:31: default_identity.sign.keys[2]: FOLDER/a.pem holds the same key as keys[0]; remove one"}},
		{"keys: [a.pem, again.pem]" + agent, []string{"2:24: default_identity.sign.keys[1]: FOLDER/again.pem holds the same key as keys[0]"}},
		{"keys: [a.pem]", []string{"2:3: default_identity.sign.agent: no scheme://host in it; write the origin of the directory, such as https://bot.example.org"}},
		{"keys: [a.pem], agent: 'http://bot.example.org'", []string{"2:32: default_identity.sign.agent: http://bot.example.org is not an https origin"}},
		{"keys: [a.pem], agent: 'https://bot.example.org/keys'", []string{`2:32: default_identity.sign.agent: read origin: "/keys" follows the host; write https://bot.example.org`}},
		{"keys: [a.pem], form: cloudflare" + agent, []string{`2:31: default_identity.sign.form: "cloudflare" is none of auto, dictionary, string`}},
		{"keys: [a.pem], forms: {'*.example.com': both}" + agent, []string{`2:50: default_identity.sign.forms.*.example.com: "both" is none of`}},
		{"keys: [a.pem], forms: {'b*ü.example': string}" + agent, []string{`2:33: default_identity.sign.forms.b*ü.example: of this key, "b*ü.example" is not a glob over hosts`}},
		{"keys: [a.pem], cover: ['@method']" + agent, []string{"2:32: default_identity.sign.cover: @authority is missing"}},
		{"keys: [a.pem], cover: ['@authority', '@query']" + agent, []string{`2:32: default_identity.sign.cover: "@query" is none of @authority, @method, @path`}},
		{"keys: [a.pem], lifetime: 9s" + agent, []string{"2:35: default_identity.sign.lifetime: 9s is not between 10s and 24h"}},
		{"keys: [a.pem], http: maybe" + agent, []string{`2:31: default_identity.sign.http: "maybe" is neither true nor false`}},
		{"keys: [none.pem, rsa.pem], agent: 'ftp://x', lifetime: 2d", []string{
			"2:17: default_identity.sign.keys[0]", "2:27: default_identity.sign.keys[1]", "2:44: default_identity.sign.agent", "2:65: default_identity.sign.lifetime"}},
	} {
		_, err := loadSign(folder, test.section)
		if err == nil {
			t.Errorf("%s: no error", test.section)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(test.want) {
			t.Errorf("%s: %d faults, want %d: %v", test.section, len(lines), len(test.want), err)
			continue
		}
		for i, line := range lines {
			if want := folder + "/FILE:" + strings.ReplaceAll(test.want[i], "FOLDER", folder); !strings.HasPrefix(line, want) {
				t.Errorf("%s:\ngot  %s\nwant %s", test.section, line, want)
			}
		}
	}
}

func TestSigning(t *testing.T) {
	folder := newKeys(t)
	for _, section := range []string{
		"keys: [a.pem, b.pem], agent: 'https://bot.example.org'",
		"keys: [a.pem], agent: 'https://bot.example.org:8443', lifetime: 1d, form: string, forms: {'*.example.com': dictionary, '::1': string}, http: true, cover: ['@authority']",
	} {
		c, err := loadSign(folder, section)
		if err != nil {
			t.Errorf("%s: %v", section, err)
			continue
		}
		table, err := c.GateSettings().Identities.Load()
		if err != nil {
			t.Errorf("%s: %v", section, err)
		} else if keys := table.Default.Keys(); !table.Default.Signs() || len(keys) == 0 || keys[0].ID() != seedKey(1).ID() {
			t.Errorf("%s: it signs with %v", section, keys)
		}
	}
	c, err := loadSign(folder, "form: string")
	if err != nil || c.DefaultIdentity.Signs() {
		t.Errorf("without keys and agent: error %v, signs %v", err, c.DefaultIdentity.Signs())
	}
}

func TestWarningThatNoTunnelIsRead(t *testing.T) {
	folder := newKeys(t)
	const keys = "keys: [a.pem], agent: 'https://bot.example.org'"
	for https, want := range map[string]string{
		"mode: tunnel":                 "https.mode is tunnel, so no request in a tunnel is signed for the identity images; ",
		"passthrough: ['a.test', '*']": "https.passthrough matches every host, so no request in a tunnel is signed for the identity images; ",
		"passthrough: ['*.test']":      "",
		"mode: when_needed":            "",
	} {
		text := "https: {" + https + "}\nidentities:\n  - {name: texts, match: {users: [t]}}\n  - name: images\n    sign: {" + keys + "}\n"
		c, err := Parse(Default(), filepath.Join(folder, "FILE"), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := strictyaml.Errors(c.Warnings()).Error()
		if want != "" {
			want = folder + "/FILE:5:5: identities[1].sign: " + want
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: the warnings are %q, want %q", https, got, want)
		}
	}
}

func TestWarningThatTheDirectoryIsEmpty(t *testing.T) {
	folder := newKeys(t)
	for text, warned := range map[string]bool{
		"":                                 false,
		"directory_listen: 127.0.0.1:8090": true,
		"identities:\n  - name: images\n    sign: {keys: [a.pem], agent: 'https://bot.example.org'}\ndirectory_listen: 127.0.0.1:8090": false,
	} {
		c, err := Parse(Default(), filepath.Join(folder, "FILE"), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := strictyaml.Errors(c.Warnings()).Error()
		if strings.HasPrefix(got, folder+"/FILE:1:19: directory_listen: no identity signs") != warned || !warned && got != "" {
			t.Errorf("%s: the warnings are %q", text, got)
		}
	}
}
