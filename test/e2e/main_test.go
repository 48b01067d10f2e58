// Package e2e tests the built program as its users meet it: over real sockets, with real
// clients, servers and browsers.
//
// If ROBOTSPROXY_TEST_RACE is 1, the program is built with the race detector. A data race
// then ends the program at once, and fails the tests.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the file of the built program.
var program string

// isRaceBuild says that the program is built with the race detector, which takes memory.
var isRaceBuild = os.Getenv("ROBOTSPROXY_TEST_RACE") == "1"

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
	if !isRaceBuild {
		if err := build(program, "CGO_ENABLED=0"); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	reports, err := buildWithRaceDetector(dir)
	if err != nil {
		return 0, err
	}
	code = m.Run()
	return code, readRaces(reports)
}

func build(file, cgo string, flags ...string) error {
	command := exec.Command("go", append([]string{"build", "-C", filepath.Join("..", ".."), "-o", file}, flags...)...)
	command.Env = append(os.Environ(), cgo)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

// buildWithRaceDetector makes program a script that starts the race-built program, so that
// the detector has its options in whatever environment a test gives the program. Its
// reports are the files that match the pattern returned.
func buildWithRaceDetector(dir string) (reports string, err error) {
	built := filepath.Join(dir, "race", "robotsproxy")
	if err := build(built, "CGO_ENABLED=1", "-race"); err != nil {
		return "", err
	}
	report := filepath.Join(dir, "report")
	// The detector needs cgo. Names are still looked up as by the plain build.
	script := fmt.Sprintf("#!/bin/sh\nGODEBUG=netdns=go GORACE='halt_on_error=1 atexit_sleep_ms=0 log_path=%s' exec '%s' \"$@\"\n", report, built)
	return report + ".*", os.WriteFile(program, []byte(script), 0o700)
}

// readRaces returns what the race detector has reported as an error.
func readRaces(reports string) error {
	files, err := filepath.Glob(reports)
	if err != nil {
		return err
	}
	var races []error
	for _, file := range files {
		report, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		races = append(races, fmt.Errorf("the program has a data race:\n%s", report))
	}
	return errors.Join(races...)
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
