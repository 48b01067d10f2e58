package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the page on preferences shows as the output of its example is what the example's
// commands print.
func TestPageShowsWhatCheckPrints(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "preferences.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## An example\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands, shown, found := strings.Cut(section, "It prints\n")
	if !found {
		t.Fatal("the page has no example that says what it prints")
	}
	shell := exec.Command("sh", "-c", `robotsproxy() { "$PROGRAM" "$@"; }`+"\n"+codeIn(commands))
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "PROGRAM="+program, "HOME="+shell.Dir)
	printed, _ := shell.Output() // the exit code is that of the last check
	if want := codeIn(shown); strings.TrimSpace(string(printed)) != want {
		t.Errorf("the example prints\n%s\nand the page shows\n%s", printed, want)
	}
}

// codeIn returns the lines of Markdown that are indented as code, and empty ones.
func codeIn(markdown string) string {
	var code strings.Builder
	for line := range strings.Lines(markdown) {
		if line, is := strings.CutPrefix(line, "    "); is || line == "\n" {
			code.WriteString(line)
		}
	}
	return strings.TrimSpace(code.String())
}
