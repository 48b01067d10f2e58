// Package e2e tests the built program as its users meet it: over real sockets, with real
// clients, servers and browsers.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the file of the built program.
var program string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err == nil && code == 0 {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "robotsproxy-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "robotsproxy")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// deadAddress is one where nobody listens: a port that only the superuser may
// take, and that no service has.
const deadAddress = "127.0.0.1:1"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
