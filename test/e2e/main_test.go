// Package e2e tests the built program as its users meet it: over real sockets, with real
// clients, servers and browsers.
package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"robotsproxy/test/build"
)

// program is the file of the built program.
var program string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(suite{m})
}

// A suite is the tests, which need the program built.
type suite struct{ *testing.M }

// Run runs them in the network that they are in.
func (s suite) Run() (code int) {
	program = os.Getenv(programVariable)
	if program == "" {
		return build.RunTests(s.M, &program)
	}
	close, err := openOwnNetwork()
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the network of the tests:", err)
		return 1
	}
	defer close()
	return s.M.Run()
}

// deadAddress is an address where nobody listens: only the superuser may take the port,
// and no service has it.
const deadAddress = "127.0.0.1:1"

// testTimeout is how long a test waits for anything. It ends what hangs, and nothing that
// is only slow.
const testTimeout = 2 * time.Minute

// waitFor waits until done returns true, for what gives no sign to wait for. If that never
// happens, the test ends with what failure returns.
func waitFor(t testing.TB, done func() bool, failure func() string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(failure())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
