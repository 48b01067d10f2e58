package clientsetup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table that people read has every client that the program knows.
func TestPageHasEveryClient(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "# Clients\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, c := range Clients {
		name, _, _ := strings.Cut(strings.NewReplacer("Python's ", "", "PHP's ", "").Replace(c.Name), ",")
		if !strings.Contains(table, name) {
			t.Errorf("docs/clients.md's table does not have %s", c.Name)
		}
	}
}

func TestSetupLeavesNothingToFillIn(t *testing.T) {
	for _, c := range Clients {
		for _, secure := range []bool{false, true} {
			got := c.Setup("127.0.0.1:8181", secure)
			if strings.ContainsAny(got, "{}") || secure && strings.Contains(got, "http://") || !secure && strings.Contains(got, "https://127.0.0.1") {
				t.Errorf("%s, over TLS %t: %s", c.Name, secure, got)
			}
		}
	}
}
