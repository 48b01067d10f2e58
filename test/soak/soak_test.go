package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"robotsproxy/test/build"
)

// commandVariable makes the program of the tests the command soak.
const commandVariable = "SOAK_COMMAND"

// program is the file of the built robotsproxy.
var program string

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" || os.Getenv(errandVariable) != "" {
		main()
		return
	}
	os.Exit(build.RunTests(m, &program))
}

// A short soak finds nothing.
func TestShortSoak(t *testing.T) {
	command := exec.Command(os.Args[0], "-robotsproxy", program, "-for", "25s")
	command.Env = append(os.Environ(), commandVariable+"=1")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Logf("%s", output)
	for _, want := range []string{"seed ", "requests that reached an origin", "nothing is broken"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the report does not have %q", want)
		}
	}
}

// A soak of which nothing is as it should be says so: here of a proxy that is none.
func TestSoakOfAnotherProgram(t *testing.T) {
	command := exec.Command(os.Args[0], "-robotsproxy", "/bin/true", "-for", "1s")
	command.Env = append(os.Environ(), commandVariable+"=1")
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "ended at its start") {
		t.Errorf("%v\n%s", err, output)
	}
}

// No two runs with a seed differ in what the origins serve.
func TestSeed(t *testing.T) {
	faults := map[pageFault]int{}
	for i := range 2000 {
		path := fmt.Sprintf("/a/open/%d.html", i)
		p := pageOf(7, 3, path)
		if again := pageOf(7, 3, path); again != p {
			t.Fatalf("%s is %v, then %v", path, p, again)
		}
		faults[p.fault]++
	}
	for _, f := range pageFaults {
		if faults[f.fault] == 0 {
			t.Errorf("no page has the fault %s", f.fault)
		}
	}
	if faults[faultless] < 1000 {
		t.Errorf("only %d of 2000 pages are faultless", faults[faultless])
	}
}
