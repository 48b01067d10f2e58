package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain runs a role if the benchmark has started this test program for one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

// The smallest scale measures every case, with the proxies that need no installation.
func TestSmoke(t *testing.T) {
	program := filepath.Join(t.TempDir(), "robotsproxy")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out, progress bytes.Buffer
	err := run(t.Context(), []string{"-robotsproxy", program, "-scale", "smoke", "-proxies", "^(robotsproxy(, logging|, signing)?|goproxy|ReverseProxy)$"}, &out, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	t.Logf("%s", &out)
	for _, c := range benchCases() {
		for _, k := range kinds("", nil)[:5] {
			if _, ok := c.measures(&k); ok && !strings.Contains(section(out.String(), c.name), "\n| "+k.name+" |") {
				t.Errorf("%s: no result for %s", c.name, k.name)
			}
		}
	}
	for _, name := range []string{halfLoad, plainDown, secureDown, "memory", "goal"} {
		if !strings.Contains(out.String(), "\n| "+name) {
			t.Errorf("there is no table for %s", name)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// section returns the table that begins with name.
func section(report, name string) string {
	_, table, _ := strings.Cut(report, "\n| "+name)
	table, _, _ = strings.Cut(table, "\n\n")
	return table
}
