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
	err := run(t.Context(), []string{"-robotsproxy", program, "-scale", "smoke", "-proxies", "^(robotsproxy(, logging|, signing|, GOMAXPROCS=1)?|goproxy.*|ReverseProxy)$"}, &out, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	t.Logf("%s", &out)
	for _, c := range benchCases() {
		for _, k := range kinds("", nil) {
			if k.program != "" || strings.Contains(k.name, "GOMAXPROCS=") && k.name != onProcessors(1) {
				continue
			}
			if _, ok := c.measures(&k); ok && !strings.Contains(section(out.String(), c.name), "\n| "+k.name+" |") {
				t.Errorf("%s: no result for %s", c.name, k.name)
			}
		}
	}
	for _, name := range []string{halfLoad, plainDown, secureDown, "memory", "requests/s by GOMAXPROCS", "summary", "goal"} {
		if !strings.Contains(out.String(), "\n| "+name) {
			t.Errorf("there is no table for %s", name)
		}
	}
	for _, c := range idleCases() {
		row := "\n| " + c.name + " | 40 | "
		if table := section(out.String(), idleOfEach); !strings.Contains(table, row) {
			t.Errorf("there is no line %q in the table of idle connections:\n%s", row, table)
		}
	}
	sealed := "\n| sealed commands |"
	if exec.Command("unshare", "--user", "--map-current-user", "--net", "--mount", "true").Run() != nil {
		sealed = "\n- left out: sealed, " // this system lets no command be sealed
	}
	if !strings.Contains(out.String(), sealed) {
		t.Errorf("there is no line %q", sealed)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// The limit on open files bounds how many idle connections a proxy is given to hold.
func TestIdleConnectionsFitTheFileLimit(t *testing.T) {
	for _, c := range []struct {
		files int // of each connection
		limit uint64
		want  int
	}{
		{1, 65536, 10_000},
		{2, 65536, 10_000},
		{1, 10_512, 10_000},
		{1, 10_511, 9_999},
		{2, 20_000, 9_744},
		{1, 256, 0},
		{2, 1<<64 - 1, 10_000}, // RLIM_INFINITY
	} {
		if got := (&idleCase{files: c.files}).permitted(10_000, c.limit); got != c.want {
			t.Errorf("%d files each, %d in all: %d connections, want %d", c.files, c.limit, got, c.want)
		}
	}
}

// section returns the table that begins with name.
func section(report, name string) string {
	_, table, _ := strings.Cut(report, "\n| "+name)
	table, _, _ = strings.Cut(table, "\n\n")
	return table
}
