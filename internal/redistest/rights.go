//go:build unix

package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Rights are those that docs/deploy.md says the program's user of Redis needs.
func Rights(t testing.TB) []string { return stated(t, `user robotsproxy on >PASSWORD ((?s:.*?))\n\n`) }

// ClusterRights are what a Cluster needs besides [Rights].
func ClusterRights(t testing.TB) []string { return stated(t, "A Cluster needs (.*?) too") }

// SentinelRights are what the program's user of Sentinels needs.
func SentinelRights(t testing.TB) []string {
	return stated(t, `user of Sentinels needs ((?s:.*?))\.\n`)
}

// stated returns the rights that a pattern finds in docs/deploy.md.
func stated(t testing.TB, pattern string) []string {
	t.Helper()
	file := filepath.Join("docs", "deploy.md")
	for up := 0; up < 5; up++ { // tests run in the folders of their packages
		if _, err := os.Stat(file); err == nil {
			break
		}
		file = filepath.Join("..", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("docs/deploy.md does not say %s", pattern)
	}
	return strings.Fields(strings.NewReplacer("`", "", ",", "", " and ", " ").Replace(string(found[1])))
}
