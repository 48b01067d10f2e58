package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"robotsproxy/certs"
)

func TestRootsInABundle(t *testing.T) {
	a, b, c := newRoot(t), newRoot(t), newRoot(t)
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	secret := privateKey(t, key)
	special := string(pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: newRootDER(t)}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("broken")}))
	commented := "# A root\r\n#\r\nIssuer: O=A\r\n" + strings.ReplaceAll(a, "\n", "\r\n") + "\r\n# Another -----BEGIN\r\n" + strings.TrimSpace(b)

	for _, test := range []struct {
		name   string
		files  map[string]string
		system []string
		own    []string
		want   string
		warned []string
	}{
		{name: "a machine without roots", system: []string{"none.pem", "none"}},
		{name: "the first file", files: map[string]string{"2": b, "3": c}, system: []string{"1", "2", "3"}, want: b},
		{name: "a file without roots", files: map[string]string{"1": "", "2": b}, system: []string{"1", "2"}, want: b},
		{name: "a folder", files: map[string]string{"d/a.0": a, "d/b.0": b, "d/key.pem": secret, "d/README": "text", "d/sub/c.0": c}, system: []string{"none", "d"}, want: a + b},
		{name: "comments and line ends", files: map[string]string{"1": commented}, system: []string{"1"}, want: a + b},
		{name: "what is no certificate", files: map[string]string{"1": secret + a + broken + special + b + secret}, system: []string{"1"}, want: a + b},
		{name: "the user's", files: map[string]string{"1": a, "u": b, "v": c}, system: []string{"1"}, own: []string{"u", "v"}, want: a + b + c},
		{name: "the user's folder", files: map[string]string{"1": a, "d/1": b, "d/2": c}, system: []string{"1"}, own: []string{"d"}, want: a + b + c},
		{name: "the user's alone", files: map[string]string{"u": b + secret}, own: []string{"u"}, want: b},
		{name: "duplicates", files: map[string]string{"1": a + b + a, "u": commented + c, "v": c}, system: []string{"1"}, own: []string{"u", "v", "1"}, want: a + b + c},
		{name: "a file that is not there", files: map[string]string{"1": a, "v": c}, system: []string{"1"}, own: []string{"u", "v"}, want: a + c, warned: []string{"u: no such file"}},
		{name: "a file with a key alone", files: map[string]string{"1": a, "u": secret}, system: []string{"1"}, own: []string{"u"}, want: a, warned: []string{"u: there is no PEM certificate"}},
		{name: "a folder without roots", files: map[string]string{"1": a, "d/key.pem": secret}, system: []string{"1"}, own: []string{"d"}, want: a, warned: []string{"d: there is no PEM certificate"}},
		{name: "a device", files: map[string]string{"1": a}, system: []string{"1"}, own: []string{"/dev/zero"}, want: a, warned: []string{"/dev/zero is not a regular file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				writeFile(t, filepath.Join(dir, name), text)
			}
			t.Chdir(dir)
			ca := openCA(t, certs.Options{}, "data")
			trust := writeTrust(t, ca, "trust", Own{Bundles: test.own}, test.system...)
			checkTrust(t, ca, trust, test.want)
			if len(trust.Warnings) != len(test.warned) {
				t.Errorf("warnings %q, want %d", trust.Warnings, len(test.warned))
			}
			for i, want := range test.warned {
				if i < len(trust.Warnings) && !strings.Contains(trust.Warnings[i], want) {
					t.Errorf("warning %q does not say %q", trust.Warnings[i], want)
				}
			}
		})
	}
}

// The CA may be one of the system's roots already, or stand below one.
func TestCAThatTheSystemKnows(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, dir)
	system := filepath.Join(dir, "system")
	other := newRoot(t)
	writeFile(t, system, string(ca.PEM())+other)
	trust := writeTrust(t, ca, filepath.Join(dir, "trust"), Own{}, system)
	if got := readFileText(t, trust.Bundle); got != string(ca.PEM())+other {
		t.Errorf("the bundle is %s", got)
	}
}

// The variables of one folder may be the user's own when it is written to again.
func TestBundleThatNamesItself(t *testing.T) {
	dir := t.TempDir()
	system, corporate := newRoot(t), newRoot(t)
	writeFile(t, filepath.Join(dir, "system"), system)
	writeFile(t, filepath.Join(dir, "corporate"), corporate)
	writeFile(t, filepath.Join(dir, "wgetrc"), "quiet = on\n")
	folder := filepath.Join(dir, "trust")
	write := func(ca *certs.CA, bundle, wgetrc string) Files {
		trust := writeTrust(t, ca, folder, Own{[]string{bundle}, wgetrc}, filepath.Join(dir, "system"))
		checkTrust(t, ca, trust, system+corporate)
		if got, want := readFileText(t, trust.Wgetrc), "quiet = on\nca_certificate = "+trust.Bundle+"\n"; got != want {
			t.Errorf("wgetrc is %q, want %q", got, want)
		}
		return trust
	}
	ca := openCA(t, certs.Options{}, filepath.Join(dir, "data"))
	first := write(ca, filepath.Join(dir, "corporate"), filepath.Join(dir, "wgetrc"))
	link := filepath.Join(dir, "link")
	if err := os.Symlink(first.Bundle, link); err != nil {
		t.Fatal(err)
	}
	write(ca, first.Bundle, first.Wgetrc)
	write(ca, link, first.Wgetrc)
	write(openCA(t, certs.Options{}, filepath.Join(dir, "data of a new CA")), first.Bundle, first.Wgetrc)
}

func TestWgetrc(t *testing.T) {
	for _, test := range []struct {
		name, own string
		mode      fs.FileMode // of own; 0: there is no such file
		want      string      // before the line of the bundle
		wantMode  fs.FileMode
	}{
		{"open", "ca_certificate = /old\n", 0o644, "ca_certificate = /old\n", 0o644},
		{"without a line end", "quiet = on", 0o664, "quiet = on\n", 0o644},
		{"private", "http_password = x\n", 0o600, "http_password = x\n", 0o600},
		{"for a group", "http_password = x\n", 0o640, "http_password = x\n", 0o600},
		{"empty", "", 0o644, "", 0o644},
		{"missing", "", 0, "", 0o644},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			own := filepath.Join(dir, "own")
			if test.mode != 0 {
				writeFile(t, own, test.own)
				if err := os.Chmod(own, test.mode); err != nil {
					t.Fatal(err)
				}
			}
			trust := writeTrust(t, openCA(t, certs.Options{}, dir), filepath.Join(dir, "trust"), Own{Wgetrc: own})
			if got, want := readFileText(t, trust.Wgetrc), test.want+"ca_certificate = "+trust.Bundle+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := mode(t, trust.Wgetrc); got != test.wantMode {
				t.Errorf("mode %o, want %o", got, test.wantMode)
			}
			if warned := strings.Contains(strings.Join(trust.Warnings, ""), own); warned != (test.mode == 0) {
				t.Errorf("warnings: %q", trust.Warnings)
			}
		})
	}
}

func TestPHPFindsTheBundle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's ${HOME}")
	trust := writeTrust(t, openCA(t, certs.Options{}, dir), filepath.Join(dir, "trust"), Own{})
	quoted := strings.Replace("'"+trust.Bundle+"'", "it's", `it'"'"'s`, 1)
	if got, want := readFileText(t, filepath.Join(trust.PHP, "robotsproxy.ini")), "curl.cainfo = "+quoted+"\nopenssl.cafile = "+quoted+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTrustFolder(t *testing.T) {
	if got := (Options{}).Folder("data"); got != filepath.Join("data", "trust") {
		t.Errorf("by default %s", got)
	}
	if got := (Options{Dir: "elsewhere"}).Folder("data"); got != "elsewhere" {
		t.Errorf("named, %s", got)
	}
}

func TestEverybodyMayReadTrust(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	trust := writeTrust(t, openCA(t, certs.Options{}, dir), filepath.Join(dir, "a", "b"), Own{})
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(trust.CA): 0o755, trust.PHP: 0o755, filepath.Join(trust.PHP, "robotsproxy.ini"): 0o644,
		trust.CA: 0o644, trust.Bundle: 0o644, trust.Store: 0o644, trust.Cacerts: 0o644, trust.Wgetrc: 0o644,
	} {
		if got := mode(t, path); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestTrustIsWrittenOnlyWhereItChanges(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, dir)
	system := filepath.Join(dir, "system")
	writeFile(t, system, newRoot(t))
	folder := filepath.Join(dir, "trust")
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	// changed names the files written by another Write.
	changed := func(own Own) []string {
		var names []string
		each(t, folder, func(path string) {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		})
		writeTrust(t, ca, folder, own, system)
		each(t, folder, func(path string) {
			if info, err := os.Stat(path); err != nil || info.ModTime().After(long.Add(time.Minute)) {
				names = append(names, filepath.Base(path))
			}
		})
		return names
	}
	trust := writeTrust(t, ca, folder, Own{}, system)
	if err := os.Chtimes(folder, long, long); err != nil {
		t.Fatal(err)
	}
	if got := changed(Own{}); got != nil {
		t.Errorf("with nothing new, written: %q", got)
	}
	// Somebody who may only read the folder can do this, too.
	if info, err := os.Stat(folder); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("with nothing new, there was a file for a time in the folder, or error %v", err)
	}
	if err := os.Chmod(trust.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := changed(Own{}); !slices.Equal(got, []string{"ca.pem"}) || mode(t, trust.CA) != 0o644 {
		t.Errorf("after a change of mode, written: %q", got)
	}
	writeFile(t, filepath.Join(dir, "own"), newRoot(t))
	if got := changed(Own{Bundles: []string{filepath.Join(dir, "own")}}); !slices.Equal(got, []string{"ca-bundle.pem", "cacerts.p12", "truststore.p12"}) {
		t.Errorf("with another root, written: %q", got)
	}
	writeFile(t, trust.Store, "spoilt")
	if got := changed(Own{Bundles: []string{filepath.Join(dir, "own")}}); !slices.Equal(got, []string{"truststore.p12"}) {
		t.Errorf("after a file was spoilt, written: %q", got)
	}
}

func TestReadersFindTrustWhole(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, dir)
	folder := filepath.Join(dir, "trust")
	writeFile(t, filepath.Join(dir, "wgetrc"), "quiet = on\n")
	var roots strings.Builder
	for range 40 {
		roots.WriteString(newRoot(t))
	}
	writeFile(t, filepath.Join(dir, "own"), roots.String())
	owns := []Own{{}, {[]string{filepath.Join(dir, "own")}, filepath.Join(dir, "wgetrc")}}
	valid := map[string][]string{} // what each file may hold
	for _, own := range owns {
		writeTrust(t, ca, folder, own)
		each(t, folder, func(path string) { valid[path] = append(valid[path], readFileText(t, path)) })
	}

	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for i := range 4 {
		writers.Go(func() {
			for n := range 40 {
				if _, err := write(ca, folder, owns[(i+n)%2], nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for path, texts := range valid {
		readers.Go(func() {
			for !done.Load() {
				if text, err := os.ReadFile(path); err != nil || !slices.Contains(texts, string(text)) {
					t.Errorf("%s: %d bytes, error %v", path, len(text), err)
					return
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	each(t, folder, func(path string) {
		if valid[path] == nil {
			t.Errorf("%s was left behind", path)
		}
	})
}

func TestTrustStaysApartFromTheKey(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, filepath.Join(dir, "ca", "data"))
	link := func(from, to string) string {
		from = filepath.Join(dir, from)
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o755), os.Symlink(to, from)); err != nil {
			t.Fatal(err)
		}
		return from
	}
	data := filepath.Dir(ca.KeyPath())
	linked := certs.Options{Cert: link("links/cert", ca.Path()), Key: link("links/key", ca.KeyPath())}
	moved := certs.Options{Cert: filepath.Join(dir, "public", "ca.pem"), Key: ca.KeyPath()}
	writeFile(t, moved.Cert, string(ca.PEM()))
	for _, test := range []struct {
		name, folder string
		opts         certs.Options
		want         string // the file that is there; "" if none
	}{
		{"the data directory", data, certs.Options{}, ca.KeyPath()},
		{"above it", dir, certs.Options{}, ca.KeyPath()},
		{"the root", "/", certs.Options{}, ca.KeyPath()},
		{"by another name", data + "/../data/", certs.Options{}, ca.KeyPath()},
		{"a link to it", link("shared", data), certs.Options{}, ca.KeyPath()},
		{"where the key has a link", filepath.Join(dir, "links"), linked, linked.Key},
		{"where the key's link leads", data, linked, linked.Key},
		{"the folder of the user's certificate", filepath.Dir(moved.Cert), moved, moved.Cert},
		{"inside it", filepath.Join(data, "trust"), certs.Options{}, ""},
		{"beside it", filepath.Join(dir, "ca", "data-of-clients"), certs.Options{}, ""},
		{"inside the user's", filepath.Join(dir, "links", "trust"), linked, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := readFileText(t, ca.Path())
			_, err := Write(openCA(t, test.opts, data), test.folder, Own{})
			checkRefused(t, err, test.want, "https.trust_dir")
			if test.opts.Cert != "" {
				err := Options{Dir: test.folder}.Validate(test.opts.Key, test.opts.Cert)
				checkRefused(t, err, test.want, "trust_dir: ")
			}
			if readFileText(t, ca.Path()) != before {
				t.Error("the CA was written to")
			}
		})
	}
}

func checkRefused(t *testing.T, err error, file, key string) {
	t.Helper()
	switch {
	case file == "" && err != nil:
		t.Error(err)
	case file != "" && (err == nil || !strings.Contains(err.Error(), file+" is in it") || !strings.Contains(err.Error(), key)):
		t.Errorf("error %v, want one that names %s and %s", err, file, key)
	}
}

func TestTrustThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, filepath.Join(dir, "data"))
	file := filepath.Join(dir, "file")
	writeFile(t, file, "text")
	for _, folder := range []string{file, filepath.Join(file, "trust"), "/proc/robotsproxy", filepath.Join(dir, "a\nb")} {
		trust, err := Write(ca, folder, Own{})
		if err == nil || !strings.Contains(err.Error(), "https.trust_dir") || trust.CA != "" {
			t.Errorf("%q: got %+v, error %v", folder, trust, err)
		}
	}
}

func TestOpenSSLTakesTrust(t *testing.T) {
	dir := t.TempDir()
	ca := openCA(t, certs.Options{}, dir)
	trust, err := Write(ca, filepath.Join(dir, "trust"), Own{}) // with the roots of this machine
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Leaf("example.com")
	if err != nil {
		t.Fatal(err)
	}
	leafFile := filepath.Join(dir, "leaf.pem")
	writeFile(t, leafFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})))
	for _, file := range []string{trust.CA, trust.Bundle} {
		if out, err := exec.Command("openssl", "verify", "-CAfile", file, "-no-CApath", leafFile).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
	out, err := exec.Command("openssl", "pkcs12", "-in", trust.Store, "-passin", "pass:"+trust.StorePassword, "-nokeys").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !slices.EqualFunc(parsePEM(out), parsePEM([]byte(readFileText(t, trust.Bundle))), (*x509.Certificate).Equal) {
		t.Error("the store has other certificates than the bundle")
	}
	names := map[string]bool{} // of which Java keeps one certificate each
	for line := range strings.Lines(string(out)) {
		if _, name, found := strings.Cut(line, "friendlyName: "); found {
			names[strings.ToLower(name)] = true
		}
	}
	if len(names) != len(parsePEM(out)) {
		t.Errorf("the store has %d names for %d certificates", len(names), len(parsePEM(out)))
	}
}

// checkTrust checks that the bundle and the store have the roots, in PEM, and
// then the CA; and that there is a key nowhere.
func checkTrust(t *testing.T, ca *certs.CA, trust Files, roots string) {
	t.Helper()
	if !filepath.IsAbs(trust.CA) {
		t.Errorf("%s is relative to a folder that the client may not be in", trust.CA)
	}
	want := roots + string(ca.PEM())
	if got := readFileText(t, trust.Bundle); got != want {
		t.Errorf("the bundle has %d certificates, want %d, or others:\n%s", strings.Count(got, "BEGIN"), strings.Count(want, "BEGIN"), got)
	}
	if got := readFileText(t, trust.CA); got != string(ca.PEM()) {
		t.Errorf("ca.pem is %s", got)
	}
	for store, password := range map[string]string{trust.Store: trust.StorePassword, trust.Cacerts: ""} {
		stored, err := pkcs12.DecodeTrustStore([]byte(readFileText(t, store)), password)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(encode(stored)); got != want {
			t.Errorf("%s has %d certificates, or others than the bundle", store, len(stored))
		}
	}
	secret, _ := pem.Decode([]byte(readFileText(t, ca.KeyPath())))
	each(t, filepath.Dir(trust.CA), func(path string) {
		if text := readFileText(t, path); strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, string(secret.Bytes)) {
			t.Errorf("there is a key in %s", path)
		}
	})
}

func writeTrust(t *testing.T, ca *certs.CA, folder string, own Own, places ...string) Files {
	t.Helper()
	trust, err := write(ca, folder, own, places)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

// newRoot is another certificate each time, in PEM.
func newRoot(t *testing.T) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: newRootDER(t)}))
}

func newRootDER(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// privateKey is key in PEM.
func privateKey(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func openCA(t *testing.T, opts certs.Options, dir string) *certs.CA {
	t.Helper()
	ca, err := certs.Open(opts, dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// each calls f with the files in folder, at any depth.
func each(t *testing.T, folder string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			f(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readFileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}
