// Package build builds the program for the tests of this module.
//
// If ROBOTSPROXY_TEST_RACE is 1, the program is built with the race detector. A data race
// then ends the program at once, and fails the tests.
package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// IsRace says that the program is built with the race detector, which takes memory.
var IsRace = os.Getenv("ROBOTSPROXY_TEST_RACE") == "1"

// RunTests builds the program, sets *program to its file, runs a package's tests and
// returns their exit code. It takes the program away at the end.
func RunTests(m *testing.M, program *string) (code int) {
	code, err := runTests(m, program)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runTests(m *testing.M, program *string) (code int, err error) {
	dir, err := os.MkdirTemp("", "robotsproxy-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // tests run the program as other users too
		return 0, err
	}
	*program = filepath.Join(dir, "robotsproxy")
	if !IsRace {
		if err := build(*program, "CGO_ENABLED=0"); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	reports, err := buildWithRaceDetector(*program)
	if err != nil {
		return 0, err
	}
	code = m.Run()
	return code, readRaces(reports)
}

// Plain builds the program without the race detector, for a test that measures it. It returns the
// program's file, which goes with the test.
func Plain(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "robotsproxy")
	if err := build(file, "CGO_ENABLED=0"); err != nil {
		t.Fatal(err)
	}
	return file
}

func build(file, cgo string, flags ...string) error {
	command := exec.Command("go", append([]string{"build", "-C", filepath.Join("..", ".."), "-o", file}, flags...)...)
	command.Env = append(os.Environ(), cgo)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

// buildWithRaceDetector makes program a script that starts the race-built program. So the
// detector has its options whatever environment a test gives the program. It writes its
// reports to files that match the pattern returned.
func buildWithRaceDetector(program string) (reports string, err error) {
	dir := filepath.Dir(program)
	built := filepath.Join(dir, "race", "robotsproxy")
	if err := build(built, "CGO_ENABLED=1", "-race"); err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "reports")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil { // every user's program may report
		return "", err
	}
	report := filepath.Join(folder, "report")
	// The detector needs cgo. Names are looked up as in the plain build all the same.
	script := fmt.Sprintf("#!/bin/sh\nGODEBUG=netdns=go GORACE='halt_on_error=1 atexit_sleep_ms=0 log_path=%s' exec '%s' \"$@\"\n", report, built)
	return report + ".*", os.WriteFile(program, []byte(script), 0o755)
}

// readRaces returns the reports of the race detector as an error.
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
