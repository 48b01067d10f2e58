package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The configurations that the pages show are valid, and their keys are those of today.
func TestPagesShowValidConfigurations(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://127.0.0.1:6379/0")
	folder := t.TempDir() // in which the page on signing has a key
	if err := os.Mkdir(filepath.Join(folder, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "keys", "2026a.pem"), seedKey(1).PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		// Code is indented. A configuration begins with a key on a line of its own, or with an address.
		for _, block := range regexp.MustCompile(`(?m)^    ([a-z_]+:( +#.*)?|listen: .*)\n(    .*\n)*`).FindAllString(string(text), -1) {
			shown++
			if _, err := Parse(Default(), filepath.Join(folder, "FILE"), []byte(strings.ReplaceAll("\n"+block, "\n    ", "\n"))); err != nil {
				t.Errorf("%s shows a configuration with mistakes: %v\n%s", page, err, block)
			}
		}
	}
	if shown < 6 {
		t.Errorf("the pages show %d configurations", shown)
	}
}
