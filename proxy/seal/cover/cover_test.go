//go:build linux

package cover

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSocketPaths(t *testing.T) {
	for address, want := range map[string][]string{
		"":                                   nil,
		"unix:///run/x.sock":                 {"/run/x.sock"},
		"/run/x.sock":                        {"/run/x.sock"},
		"tcp://127.0.0.1:2375":               nil,
		"unix:abstract=/tmp/x":               nil, // in another network namespace
		"unix:path=/a,guid=1;unix:path=/b":   {"/a", "/b"},
		"ssh://user@host/run/docker.sock":    nil,
		"unix:path=relative;unix://relative": nil,
	} {
		if got := socketPaths(address); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}

func TestFirefoxKeepsItsPolicies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.json")
	for text, want := range map[string]string{
		`{"policies":{"A":1}}`: `{"policies":{"A":1,"Certificates":{"Install":["/ca"]}}}`,
		`{"policies":{"Certificates":{"ImportEnterpriseRoots":true,"Install":["x"]}}}`: `{"policies":{"Certificates":{"ImportEnterpriseRoots":true,"Install":["x","/ca"]}}}`,
		`{}`: `{"policies":{"Certificates":{"Install":["/ca"]}}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := addToFirefox(path, "/ca")
		if err != nil || !json.Valid(got) || string(got) != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := addToFirefox(path, "/ca"); err == nil {
		t.Error("a broken file was replaced")
	}
}
