package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page on sealing says which test shows what, and in which folder.
func TestSealedPageNamesTestsThatAreThere(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	page, err := fs.ReadFile(root, "docs/sealed.md")
	if err != nil {
		t.Fatal(err)
	}
	// `TestA`, `TestB` in `folder`
	named := regexp.MustCompile("((?:`Test\\w+`(?:, | and )?)+)[^`|;]*`([a-z0-9/]+)`")
	count := 0
	for _, match := range named.FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(match[1], -1) {
			count++
			if !hasTest(t, root, match[2], name) {
				t.Errorf("docs/sealed.md names %s in %s, which is not there", name, match[2])
			}
		}
	}
	if all := strings.Count(string(page), "`Test"); count != all || count == 0 {
		t.Errorf("docs/sealed.md names %d tests, %d of them with their folder", all, count)
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
		if strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
