package architecture

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Some pages say which test shows what, and in which folder.
func TestPagesNameTestsThatAreThere(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	// `TestA`, `FuzzB` in `folder`
	named := regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?:, | and )?)+)[^`|;]*`([a-z0-9/]+)`")
	for _, page := range []string{"SECURITY.md", "docs/sealed.md"} {
		text, err := fs.ReadFile(root, page)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, match := range named.FindAllStringSubmatch(string(text), -1) {
			for _, name := range regexp.MustCompile(`(Test|Fuzz)\w+`).FindAllString(match[1], -1) {
				count++
				if !hasTest(t, root, match[2], name) {
					t.Errorf("%s names %s in %s, which is not there", page, name, match[2])
				}
			}
		}
		if all := strings.Count(string(text), "`Test") + strings.Count(string(text), "`Fuzz"); count != all || count == 0 {
			t.Errorf("%s names %d tests, %d of them with their folder", page, all, count)
		}
	}
}

// Every link between our pages leads to a file, and to a heading in it if the link names one.
func TestLinksLeadSomewhere(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	pages, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	for _, page := range append(pages, "README.md", "SECURITY.md", "CHANGELOG.md") {
		for _, match := range link.FindAllStringSubmatch(prose(t, root, page), -1) {
			if strings.Contains(match[1], ":") {
				continue // another site's
			}
			file, anchor, _ := strings.Cut(match[1], "#")
			target := path.Join(path.Dir(page), file)
			if file == "" {
				target = page
			}
			if _, err := fs.Stat(root, target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, match[1])
			} else if anchor != "" && !slices.Contains(anchors(prose(t, root, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading; it has %q", page, match[1], anchors(prose(t, root, target)))
			}
		}
	}
	readme := prose(t, root, "README.md")
	for _, page := range pages {
		if !strings.Contains(readme, "]("+page+")") {
			t.Errorf("README.md does not link to %s", page)
		}
	}
}

// The drawing of the architecture has every package; those of internal/ it draws as one.
func TestDrawingHasEveryPackage(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	text, err := fs.ReadFile(root, "docs/develop.md")
	if err != nil {
		t.Fatal(err)
	}
	_, drawing, found := strings.Cut(string(text), "\n## Architecture\n")
	drawing, _, _ = strings.Cut(drawing, "\n### ")
	if !found {
		t.Fatal("docs/develop.md does not draw the architecture")
	}
	for _, p := range packages(t) {
		if p.path() == "" || strings.HasPrefix(p.path(), "internal/") || slices.Contains(testOnly, p.path()) {
			continue
		}
		if !strings.Contains(drawing, path.Base(p.path())+"/") {
			t.Errorf("the drawing in docs/develop.md does not have %s", p.path())
		}
	}
}

// prose returns a page without its code.
func prose(t *testing.T, root fs.FS, page string) string {
	t.Helper()
	text, err := fs.ReadFile(root, page)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?m)^    .*$|^```(?s:.*?)^```$").ReplaceAllString(string(text), "")
}

// anchors returns the names by which links reach the headings of a page, as GitHub, GitLab
// and Forgejo make them.
func anchors(text string) []string {
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// Every test and benchmark that a page has a reader run is there.
func TestPagesRunTestsThatAreThere(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	var sources strings.Builder
	err := fs.WalkDir(root, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, file)
		sources.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		text, err := fs.ReadFile(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz|Benchmark)[A-Z]\w+`).FindAllString(string(text), -1) {
			if !strings.Contains(sources.String(), "\nfunc "+name) {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
}

func hasTest(t *testing.T, root fs.FS, folder, name string) bool {
	t.Helper()
	files, err := fs.Glob(root, folder+"/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
