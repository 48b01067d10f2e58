package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The example of RFC 8037 section A.3.
func TestThumbprintVector(t *testing.T) {
	if got, want := thumbprint("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if published.ID() != publishedKey {
		t.Errorf("the published key's thumbprint is %s", published.ID())
	}
}

// pkcs8 returns a private key as PEM.
func pkcs8(t *testing.T, private crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return inPEM("PRIVATE KEY", der)
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// keyFile writes a file with this mode and returns its path.
func keyFile(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

func TestReadKey(t *testing.T) {
	text := string(another.PEM())
	for name, file := range map[string]struct {
		text string
		mode fs.FileMode
	}{
		"owner alone":          {text, 0o600},
		"owner and group":      {text, 0o640},
		"read only":            {text, 0o400},
		"text around it":       {"My bot's key\n" + text + "end", 0o600},
		"a certificate before": {inPEM("CERTIFICATE", []byte{1}) + text, 0o600},
		"a second key":         {text + string(published.PEM()), 0o600},
	} {
		key, err := ReadKey(keyFile(t, file.text, file.mode))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if key.ID() != another.ID() || !key.private.Equal(another.private) {
			t.Errorf("%s: another key", name)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := string(another.PEM())
	for name, test := range map[string]struct {
		text string
		mode fs.FileMode
		want string
	}{
		"RSA":             {pkcs8(t, rsaKey), 0o600, "*rsa.PrivateKey, and only an Ed25519 key can sign; make one with: "},
		"RSA in PKCS #1":  {inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), 0o600, "its PEM type is RSA PRIVATE KEY"},
		"ECDSA":           {pkcs8(t, ecKey), 0o600, "*ecdsa.PrivateKey, and only an Ed25519 key can sign"},
		"OpenSSH":         {inPEM("OPENSSH PRIVATE KEY", []byte{1}), 0o600, "its PEM type is OPENSSH PRIVATE KEY"},
		"encrypted":       {inPEM("ENCRYPTED PRIVATE KEY", []byte{1}), 0o600, "decrypt it with openssl pkey"},
		"public":          {inPEM("PUBLIC KEY", []byte{1}), 0o600, "no PEM private key; make one with: "},
		"empty":           {"", 0o600, "no PEM private key; make one with: "},
		"damaged":         {inPEM("PRIVATE KEY", []byte{1, 2, 3}), 0o600, "; make one with: "},
		"published":       {string(published.PEM()), 0o600, "the test key that RFC 9421 publishes"},
		"read by all":     {good, 0o644, "chmod 600 it"},
		"written by all":  {good, 0o602, "chmod 600 it"},
		"behind too much": {strings.Repeat("\n", maxKeyFile) + good, 0o600, "no PEM private key"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.mode&0o007 != 0 && runtime.GOOS == "windows" {
				t.Skip("files have no mode there")
			}
			path := keyFile(t, test.text, test.mode)
			key, err := ReadKey(path)
			if key != nil || err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q and %s in it", err, test.want, path)
			}
		})
	}
}

// A named pipe would hold up the start, and each reload.
func TestKeysAreRegularFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", "-m", "600", pipe).CombinedOutput(); err != nil {
		t.Skipf("there are no named pipes: %v %s", err, out)
	}
	for _, path := range []string{pipe, t.TempDir(), os.DevNull} {
		if key, err := ReadKey(path); key != nil || err == nil || !strings.Contains(err.Error(), path+" is no regular file") {
			t.Errorf("%v", err)
		}
	}
}

func TestMissingKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.pem")
	if _, err := ReadKey(path); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

func TestNoVerbPrintsThePrivateKey(t *testing.T) {
	seed := another.private.Seed()
	shown := []string{string(seed), hex.EncodeToString(seed), fmt.Sprint(seed[:8])[1:15], base64.RawURLEncoding.EncodeToString(seed)}
	s := signer(t, nil)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%X", "%q"} {
		for _, value := range []any{another, *another, []*Key{another}, s.Key()} {
			out := fmt.Sprintf(verb, value)
			for _, secret := range shown {
				if bytes.Contains([]byte(strings.ToLower(out)), []byte(secret)) {
					t.Errorf("%s of a %T shows the private key: %s", verb, value, out)
				}
			}
		}
	}
}
