package config

import (
	"os"
	"path/filepath"
	"testing"

	"robotsproxy/certs"
	"robotsproxy/robots/store"
)

func TestFleetExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "configs", "fleet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "ca"), 0o700); err != nil {
		t.Fatal(err)
	}
	ca, err := certs.Open(certs.Options{}, filepath.Join(dir, "ca")) // as `robotsproxy ca --data-dir ca` does
	if err != nil {
		t.Fatal(err)
	}
	const redis = "rediss://default:open%20sesame@redis.internal:6379/0"
	t.Setenv("REDIS_URL", redis)
	c, err := Load(Default(), file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cache.Kind != store.Redis || c.Cache.Server.URL != redis {
		t.Errorf("got %+v", c.Cache)
	}
	if c.HTTPS.Cert != ca.Path() {
		t.Errorf("the CA is %s, want %s", c.HTTPS.Cert, ca.Path())
	}
}
