package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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
