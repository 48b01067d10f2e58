package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page on commands has each of them.
func TestPageHasEveryCommand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range rootCommand().Commands() {
		if !command.Hidden && !strings.Contains(string(text), "`robotsproxy "+command.Name()) {
			t.Errorf("docs/commands.md does not have robotsproxy %s", command.Name())
		}
	}
}
