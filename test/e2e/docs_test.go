package e2e

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the README shows as the output of its first run is what the commands before it print.
func TestReadmeShowsWhatRunPrints(t *testing.T) {
	t.Parallel()
	section := readSection(t, "README.md", "One minute")
	setup, first, _ := strings.Cut(section, "In the first terminal")
	command, shown, found := strings.Cut(first, "It prints\n")
	shown, _, _ = strings.Cut(shown, "\n`run` starts")
	if !found {
		t.Fatal("the README has no first run that says what it prints")
	}
	dir := t.TempDir()
	makeSite, _, _ := strings.Cut(codeIn(setup), "python3")
	printedBy(t, dir, makeSite)
	site := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "site"))))
	t.Cleanup(site.Close)
	there := strings.NewReplacer("127.0.0.1:8000", site.Listener.Addr().String())
	own := regexp.MustCompile(`robotsproxy-run-\w+`) // the name of a run's proxy, which differs from run to run
	printed, want := printedBy(t, dir, there.Replace(codeIn(command))), there.Replace(codeIn(shown))
	if own.ReplaceAllString(printed, "NAME") != own.ReplaceAllString(want, "NAME") {
		t.Errorf("the first run prints\n%s\nand the README shows\n%s", printed, want)
	}
}

// What the page on preferences shows as the output of its example is what the example's
// commands print.
func TestPageShowsWhatCheckPrints(t *testing.T) {
	t.Parallel()
	commands, shown, found := strings.Cut(readSection(t, "docs/preferences.md", "An example"), "It prints\n")
	if !found {
		t.Fatal("the page has no example that says what it prints")
	}
	if printed, want := printedBy(t, t.TempDir(), codeIn(commands)), codeIn(shown); printed != want {
		t.Errorf("the example prints\n%s\nand the page shows\n%s", printed, want)
	}
}

// readSection returns what a page of the repository says under a heading of the second level.
func readSection(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	must(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// printedBy returns what commands of a page print in a shell whose robotsproxy is the built
// program.
func printedBy(t *testing.T, dir, commands string) string {
	t.Helper()
	shell := exec.Command("sh", "-c", `robotsproxy() { "$PROGRAM" "$@"; }`+"\n"+commands)
	shell.Dir = dir
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "PROGRAM=" + program, "HOME=" + t.TempDir()}
	printed, err := shell.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) { // the exit code is that of the last command
		t.Fatal(err)
	}
	return strings.TrimSpace(string(printed))
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
