//go:build clients

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A library for web archives that others wrote reads the texts of an archive, and makes the same
// digests of them.
func TestLibrariesReadEvidence(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	w := start(t)
	wantRefused(t, w.curl(site.URL+"/cart"), "Disallow: /cart")
	w.stop()
	folder := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir, command.Env = folder, append(os.Environ(), nodeModules(t))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
		return string(out)
	}
	must(t, os.WriteFile(filepath.Join(folder, "log"), []byte(w.log.String()), 0o600))
	run(program, "evidence", "--config", w.config, "--data-dir", w.dir, "--from", "2d", "--to", "0d", "--log", "log", "-o", "evidence.zip")
	run("python3", "-m", "zipfile", "-e", "evidence.zip", ".")
	reader, err := filepath.Abs(filepath.Join("testdata", "clients", "warc.mjs"))
	must(t, err)
	read := run(filepath.Join(modules(t), "node", "bin", "node"), reader, "robots.warc.gz")

	uris := map[string]string{}
	for text := range strings.Lines(read) {
		var record struct {
			Type, Version, URI, Digest, Text string
			Stated                           []string
		}
		must(t, json.Unmarshal([]byte(text), &record))
		if record.Version != "WARC/1.1" || record.Stated[0] != record.Digest || record.Type == "resource" && record.Stated[1] != record.Digest {
			t.Errorf("it reads %s", text)
		}
		uris[record.Type+" "+record.URI] = record.Text
	}
	if len(uris) != 2 || uris["warcinfo "] == "" || !strings.Contains(uris["resource "+site.URL+"/robots.txt"], "Disallow: /cart") {
		t.Errorf("it reads\n%s", read)
	}
}
