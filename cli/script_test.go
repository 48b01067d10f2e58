package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"robotsproxy/proxy/seal"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/sqlitestore"
	"robotsproxy/robots/store/storetest"
)

func TestMain(m *testing.M) {
	seal.Main()
	testscript.Main(suite{m}, map[string]func(){"robotsproxy": func() { os.Exit(Main()) }})
}

// A suite runs the tests and checks that they leave no goroutine behind.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestCommands runs the scripts in testdata/script. Besides testscript's own
// commands, they have:
//
//	exits CODE COMMAND…   the command ends with that exit code
//	fetched N             $SITE has been asked N times for its robots.txt
//	serves STATUS|TEXT    what $SITE answers from now on; TEXT as in a Go string
//	gave URL TEXT…        the data directory "data" gets the texts of a file, as if fetched
//	                      an hour after each other; TEXT as in a Go string
//
// and the variables SITE, a web site whose robots.txt is in testdata/robots;
// DOWN, one that refuses connections; and TAKEN, an address that is in use.
func TestCommands(t *testing.T) {
	testscript.Run(t, scripts(false, testscript.Params{Dir: filepath.Join("testdata", "script")}))
}

// A sealed command has the same streams, signals and exit codes as any other: the script of
// run passes for both. Lines with the condition "sealed" are for one of them.
func TestRunSealed(t *testing.T) {
	if !seal.Likely() {
		t.Skip("this system does not let commands be sealed")
	}
	testscript.Run(t, scripts(true, testscript.Params{Files: []string{filepath.Join("testdata", "script", "run.txtar")}}))
}

func scripts(sealed bool, which testscript.Params) testscript.Params {
	return testscript.Params{
		Dir:                 which.Dir,
		Files:               which.Files,
		RequireExplicitExec: true,
		Condition: func(condition string) (bool, error) {
			if condition == "sealed" {
				return sealed, nil
			}
			return false, fmt.Errorf("there is no condition %q", condition)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"fetched": fetched,
			"gave":    gave,
			"serves":  serves,
		},
		Setup: func(env *testscript.Env) error {
			site := newScriptSite()
			env.Defer(site.Close)
			env.Values[scriptSiteKey{}] = site
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { taken.Close() })
			env.Setenv("SITE", site.URL)
			env.Setenv("DOWN", "http://"+deadAddress)
			env.Setenv("TAKEN", taken.Addr().String())
			if sealed {
				env.Setenv("ROBOTSPROXY_SEALED", "true")
			}
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("TZ", "America/New_York")             // must not change the times, which are in UTC
			env.Setenv("GORACE", "atexit_sleep_ms=10")       // a second is the default
			env.Setenv("http_proxy", "http://"+deadAddress)  // must be ignored
			env.Setenv("https_proxy", "http://"+deadAddress) // in a sidecar it is this proxy
			return nil
		},
	}
}

// deadAddress is an address where nobody listens: only the superuser may take the port,
// and no service has it.
const deadAddress = "127.0.0.1:1"

//go:embed testdata/robots/shop.txt
var robotsTxt string

type scriptSiteKey struct{}

type scriptSite struct {
	*httptest.Server
	fetches atomic.Int32
	status  atomic.Int32
	text    atomic.Value // of robots.txt
}

func newScriptSite() *scriptSite {
	s := &scriptSite{}
	s.status.Store(http.StatusOK)
	s.text.Store(robotsTxt)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			http.Error(w, "check asks for no page", http.StatusTeapot)
			return
		}
		s.fetches.Add(1)
		w.WriteHeader(int(s.status.Load()))
		io.WriteString(w, s.text.Load().(string))
	}))
	return s
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		got = ended.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func fetched(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fetched N")
	}
	if got := strconv.Itoa(int(ts.Value(scriptSiteKey{}).(*scriptSite).fetches.Load())); got != args[0] {
		ts.Fatalf("robots.txt was fetched %s times, want %s", got, args[0])
	}
}

func gave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gave URL TEXT...")
	}
	s, err := sqlitestore.Open(context.Background(), store.Defaults(), ts.MkAbs("data"), zerolog.Nop())
	ts.Check(err)
	defer s.Close()
	texts := args[1:]
	for i, text := range texts {
		text, err := strconv.Unquote(`"` + text + `"`)
		ts.Check(err)
		at := time.Now().Truncate(time.Second).Add(time.Duration(i-len(texts)) * time.Hour)
		ts.Check(s.Put(context.Background(), storetest.TextRecord(args[0], text, at)))
	}
}

func serves(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serves STATUS|TEXT")
	}
	site := ts.Value(scriptSiteKey{}).(*scriptSite)
	if status, err := strconv.Atoi(args[0]); err == nil {
		site.status.Store(int32(status))
		return
	}
	text, err := strconv.Unquote(`"` + args[0] + `"`)
	ts.Check(err)
	site.text.Store(text)
}
