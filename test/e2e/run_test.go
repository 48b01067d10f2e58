package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"robotsproxy/proxy/seal"
)

// errand is a run of the program: a command behind a proxy of its own.
type errand struct {
	*exec.Cmd
	out, err bytes.Buffer
}

// errand prepares a run with the world's data directory and configuration. args are the
// flags of run and the command.
func (w *world) errand(env []string, args ...string) *errand {
	e := &errand{Cmd: exec.Command(program, append([]string{"run", "--config", w.config, "--data-dir", w.dir}, args...)...)}
	e.Stdout, e.Stderr = &e.out, &e.err
	e.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.temp}, env...)
	return e
}

// wantRunFolders checks how many folders of runs there are.
func (w *world) wantRunFolders(want int) {
	w.t.Helper()
	if folders, _ := filepath.Glob(filepath.Join(w.temp, "*")); len(folders) != want {
		w.t.Errorf("there are %q, want %d", folders, want)
	}
}

// must runs the errand to its end and returns what the command wrote. The exit code must be 0.
func (e *errand) must(t *testing.T) string {
	t.Helper()
	if err := e.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &e.out, &e.err)
	}
	return e.out.String()
}

// notSealedLine is the line about sealing in the summary of a command that is not sealed.
func notSealedLine() string {
	if !seal.Likely() {
		return ""
	}
	return "robotsproxy: requests that bypassed the proxy were not seen; run --sealed prevents that\n"
}

// sealedOrNot runs a test of run twice: with a command that is not sealed, and with one
// that is. The test gives env to the errand.
func sealedOrNot(t *testing.T, test func(t *testing.T, env []string)) {
	t.Run("not sealed", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("sealed", func(t *testing.T) {
		t.Parallel()
		needsSealing(t)
		test(t, []string{"ROBOTSPROXY_SEALED=true"})
	})
}

func needsSealing(t *testing.T) {
	t.Helper()
	if !seal.Likely() {
		t.Skip("this system does not let commands be sealed")
	}
}

// curlCommand returns a command that gets URLs and writes the status of each.
func curlCommand(urls ...string) []string {
	args := []string{"--", "curl", "--disable", "--silent", "--max-time", "120", "--write-out", "%{http_code} "}
	for _, url := range urls {
		args = append(args, "--output", os.DevNull, url)
	}
	return args
}

func TestRunObeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, secure := newOrigin(t, "http", shop(), nil), newOrigin(t, "h2", shop(), nil)
	decisions := filepath.Join(t.TempDir(), "decisions.log")
	e := w.errand(nil, append([]string{"--log-file", decisions}, curlCommand(
		plain.URL+"/products/1", plain.URL+"/checkout/", secure.URL+"/products/1", secure.URL+"/checkout/", secure.URL+"/checkout/again")...)...)
	if got := e.must(t); got != "200 403 200 403 403 " {
		t.Errorf("statuses %s", got)
	}
	want := fmt.Sprintf("robotsproxy:       2 refused  %s  Disallow: /checkout/ (line 4)\n"+
		"robotsproxy:       1 refused  %s  Disallow: /checkout/ (line 4)\n", secure.URL, plain.URL) +
		notSealedLine() + "robotsproxy: 5 requests, 3 refused\n"
	if e.err.String() != want {
		t.Errorf("the summary is\n%swant\n%s", &e.err, want)
	}
	if log, _ := os.ReadFile(decisions); strings.Count(string(log), `"message":"request"`) != 5 {
		t.Errorf("the log's file has\n%s", log)
	}
	wantSame(t, "pages asked for", slices.Concat(plain.pages(), secure.pages()), []string{"/products/1", "/products/1"})
	w.wantRunFolders(0)
}

// A run works behind a proxy of serve and inside another run, which may be sealed. Each proxy has a name of its
// own.
func TestRunBehindOthers(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		outer := start(t)
		w := newWorld(t)
		for _, scheme := range []string{"http", "https"} {
			o := newOrigin(t, scheme, shop(), nil)
			bundle := filepath.Join(t.TempDir(), "user.pem")
			ca, err := os.ReadFile(outer.caFile())
			must(t, err)
			must(t, os.WriteFile(bundle, ca, 0o600))
			env := append(env, "http_proxy=http://"+outer.proxy, "HTTPS_PROXY="+outer.proxy, "SSL_CERT_FILE="+bundle)
			command := curlCommand(o.URL+"/products/1", o.URL+"/checkout/")
			inner := append([]string{"--", program, "run", "--sealed=false", "--config", w.config, "--data-dir", w.dir}, command...)
			e := w.errand(env, inner...)
			if got := e.must(t); got != "200 403 " {
				t.Errorf("%s: statuses %s\n%s", scheme, got, &e.err)
			}
			via := strings.Join(o.last(t).Header.Values("Via"), ", ")
			if !regexp.MustCompile(`^\S+ robotsproxy-run-(\w{6}), \S+ robotsproxy-run-(\w{6}), \S+ robotsproxy$`).MatchString(via) {
				t.Errorf("%s: Via %s", scheme, via)
			}
			outer.decision(o.URL + "/products/1")
			// What the inner proxy refuses does not reach the others.
			if strings.Count(e.err.String(), "1 refused") != 2 || len(outer.log.Lines(`"message":"request"`, o.URL+"/checkout/")) != 0 {
				t.Errorf("%s: the summaries are\n%s", scheme, &e.err)
			}
		}
	})
}

func TestRunsAtOnce(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		o := newOrigin(t, "https", shop(), nil)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				e := w.errand(env, curlCommand(o.URL+"/products/1", o.URL+"/checkout/")...)
				if err := e.Run(); err != nil || e.out.String() != "200 403 " {
					t.Errorf("%v, statuses %s\n%s", err, &e.out, &e.err)
				}
			})
		}
		all.Wait()
	})
}

// Hosts in no_proxy bypass the proxy, whatever its parent is; the summary says which.
func TestRunTellsOfNoProxy(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", "upstream: {ca_file: ORIGINS, proxy: http://127.0.0.1:1}"} {
		w := newWorld(t, config)
		o := newOrigin(t, "http", shop(), nil)
		path := summaryFile(t)
		e := w.errand([]string{"no_proxy=127.0.0.1,.corp.test"}, append([]string{"--summary", path}, curlCommand(o.URL+"/checkout/")...)...)
		if got := e.must(t); got != "200 " {
			t.Errorf("%s: status %s", config, got)
		}
		if !strings.Contains(e.err.String(), "0 requests, 0 refused, not judged, because of no_proxy: 127.0.0.1 .corp.test\n") {
			t.Errorf("%s: the summary is %s", config, &e.err)
		}
		readSummary(t, path).want(t, "no_proxy", map[string]any{"hosts": []any{"127.0.0.1", ".corp.test"}, "judged": false})
	}
}

func TestRunReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "default_identity: {mode: report}")
	o := newOrigin(t, "http", shop(), nil)
	e := w.errand(nil, curlCommand(o.URL+"/checkout/")...)
	if got := e.must(t); got != "200 " {
		t.Errorf("status %s", got)
	}
	want := "robotsproxy:       1 reported  " + o.URL + "  Disallow: /checkout/ (line 4)\n" + notSealedLine() +
		"robotsproxy: 1 request, 0 refused, 1 let through that robots.txt disallows (mode report)\n"
	if e.err.String() != want {
		t.Errorf("the summary is\n%s", &e.err)
	}
}

// counting is a script that prints ready, then each signal that it gets, and at its end all
// of them.
const counting = `
for s in INT TERM HUP USR1 QUIT; do trap "got=\"\$got $s\"; echo $s" $s; done
trap 'got="$got TERM"; over=1' TERM
echo ready
while [ -z "$over" ]; do sleep 0.05; done
echo "got$got"`

// A signal reaches the command once, whether it is sent to the proxy alone or to its process
// group.
func TestRunPassesSignalsOnOnce(t *testing.T) {
	t.Parallel()
	hangups := make(chan os.Signal, 1) // under nohup, the program would inherit that they are ignored
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		for _, toGroup := range []bool{false, true} {
			e := w.errand(env, "--", "sh", "-c", counting)
			e.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
			out := &logLines{}
			e.Stdout = out
			must(t, e.Start())
			pid := e.Process.Pid
			if toGroup {
				pid = -pid
			}
			awaitText(t, out, "ready")
			for _, s := range []string{"INT", "HUP", "USR1"} { // signals that are pending together arrive in any order
				must(t, syscall.Kill(pid, unix.SignalNum("SIG"+s)))
				awaitText(t, out, s+"\n")
			}
			must(t, syscall.Kill(pid, syscall.SIGTERM))
			if err := e.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &e.err)
			}
			if !strings.HasSuffix(out.String(), "got INT HUP USR1 TERM\n") {
				t.Errorf("to the group %v: the command says %q", toGroup, out)
			}
		}
	})
}

// Ctrl-C in a terminal reaches the command once, and does not end the proxy.
func TestRunInATerminal(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		master, slave := openTerminal(t)
		e := w.errand(env, "--", "sh", "-c", counting)
		e.Stdin, e.Stdout, e.Stderr = slave, slave, slave
		e.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		must(t, e.Start())
		slave.Close()
		out := readTerminal(master)
		awaitText(t, out, "ready")
		_, err := master.Write([]byte{3})
		must(t, err)
		awaitText(t, out, "INT\r\n")
		must(t, e.Process.Signal(syscall.SIGTERM))
		awaitText(t, out, "got INT TERM\r\n")
		awaitText(t, out, "robotsproxy: 0 requests")
		if err := e.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A signal that nohup has the program ignore is ignored by the command too.
func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		e := w.errand(env, "--", "sh", "-c", "kill -HUP $PPID; kill -HUP $$; echo survived")
		e.Args = append([]string{"nohup"}, e.Args...)
		e.Path, e.Err = exec.LookPath("nohup")
		if got := e.must(t); got != "survived\n" {
			t.Errorf("the command says %q\n%s", got, &e.err)
		}
	})
}

// If the reader of standard error leaves, the command runs on and its exit code counts.
func TestRunWithoutAReader(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		read, write, err := os.Pipe()
		must(t, err)
		must(t, read.Close())
		defer write.Close()
		o := newOrigin(t, "http", shop(), nil)
		e := w.errand(env, "--log-level", "debug", "--", "sh", "-c", `curl --silent "$0"; exit 3`, o.URL+"/products/1")
		e.Stderr = write
		err = e.Run()
		if code := e.ProcessState.ExitCode(); code != 3 {
			t.Errorf("%v, want exit status 3", err)
		}
	})
}

// Signals that come after the command has ended, while its last requests may end, do not
// keep the proxy from removing its files.
func TestRunCleansUpUnderSignals(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		held := make(chan struct{})
		asked := filepath.Join(t.TempDir(), "asked")
		o := newOrigin(t, "http", shop(), func(http.ResponseWriter, *http.Request) {
			os.WriteFile(asked, nil, 0o600) // tells the command that the request has arrived
			<-held
		})
		t.Cleanup(func() { close(held) })
		path := summaryFile(t)
		e := w.errand(env, "--summary", path, "--", "sh", "-c", `curl --silent --max-time 120 "$0" >/dev/null 2>&1 & until [ -e "$1" ]; do sleep 0.05; done; echo over; exit 5`,
			o.URL+"/products/1", asked)
		out := &logLines{}
		e.Stdout = out
		must(t, e.Start())
		awaitText(t, out, "over")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.Wait() // the state says how it ended
		}()
		for over := false; !over; {
			select {
			case <-ended:
				over = true
			case <-time.After(20 * time.Millisecond):
				e.Process.Signal(syscall.SIGTERM) // fails if it has just ended
			}
		}
		if code := e.ProcessState.ExitCode(); code != 5 {
			t.Errorf("exit status %d, want 5", code)
		}
		if !strings.Contains(e.err.String(), "1 request, 0 refused, 1 broken off or not answered\n") {
			t.Errorf("the summary is\n%s", &e.err)
		}
		readSummary(t, path).want(t, "requests", 1, "broken_off", 1, "exit_code", 5)
		w.wantRunFolders(0)
	})
}

// A client that does not trust the CA sends no request; the summary says why.
func TestRunTellsOfDistrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newOrigin(t, "https", shop(), nil)
	path := summaryFile(t)
	e := w.errand(nil, "--summary", path, "--", "sh", "-c", `curl --silent --cacert /dev/null "$0"; true`, o.URL+"/products/1")
	e.must(t)
	if got := e.err.String(); !strings.HasSuffix(got, notSealedLine()+"robotsproxy: the command does not seem to trust the proxy's CA: it closed the connection when it saw the certificate for 127.0.0.1\nrobotsproxy: 0 requests, 0 refused\n") || strings.Contains(got, "sent no request") {
		t.Errorf("the summary is\n%s", got)
	}
	readSummary(t, path).want(t, "requests", 0, "distrusted", []any{"127.0.0.1"})
}

// The summary quotes a site without control characters.
func TestSummaryIsSafeToShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := newOrigin(t, "http", says("User-agent: *\nDisallow: /a\x1b[31m\n"), nil)
	e := w.errand(nil, append(curlCommand(o.URL+"/a%1B[31m", "http://127.0.0.1:1/"), "--globoff")...)
	e.must(t)
	for _, want := range []string{`  Disallow: /a\x1b[31m (line 2)`, "  http://127.0.0.1:1  its robots.txt cannot be had (connection refused)"} {
		if !strings.Contains(e.err.String(), want+"\n") {
			t.Errorf("the summary has no %q:\n%s", want, &e.err)
		}
	}
}

// A command ends when its proxy is killed.
func TestCommandEndsWithItsProxy(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		e := w.errand(env, "--", "sh", "-c", `trap 'echo gone > "$0"; exit' TERM; echo ready; while :; do sleep 0.05; done`, filepath.Join(t.TempDir(), "gone"))
		out := &logLines{}
		e.Stdout = out
		must(t, e.Start())
		awaitText(t, out, "ready")
		must(t, e.Process.Kill())
		e.Wait()
		file := e.Args[len(e.Args)-1]
		waitFor(t, func() bool { return isFile(file) }, func() string { return "the command runs on" })
	})
}

// The command may run as a user who cannot enter the data directory.
func TestRunAsAnotherUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	for name, config := range map[string]func(w *world) string{
		"by default": func(*world) string { return "" },
		"trust_dir":  func(w *world) string { return fmt.Sprintf("https: {trust_dir: %q}", filepath.Join(w.temp, "trust")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.configure(config(w))
			o := newOrigin(t, "https", shop(), nil)
			e := w.errand(nil, asNobody(curlCommand(o.URL+"/products/1", o.URL+"/checkout/")...)...)
			if got := e.must(t); got != "200 403 " {
				t.Errorf("statuses %s\n%s", got, &e.err)
			}
			if info, err := os.Stat(w.dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the data directory is %v, %v", info.Mode(), err)
			}
		})
	}
}

// Requests of other users of the machine are refused at every door, and logged once.
func TestRunServesNoOtherUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	w := newWorld(t)
	plain, secure := newOrigin(t, "http", shop(), nil), newOrigin(t, "https", shop(), nil)
	logged := filepath.Join(t.TempDir(), "log")
	e := w.errand(nil, "--log-file", logged, "--", "sh", "-c", `echo "proxy=$http_proxy"; read line`)
	input, err := e.StdinPipe()
	must(t, err)
	out := &logLines{}
	e.Stdout = out
	must(t, e.Start())
	awaitText(t, out, "\n")
	proxy := strings.TrimSpace(strings.TrimPrefix(out.String(), "proxy="))
	ask := func(prefix []string, args ...string) string {
		t.Helper()
		command := slices.Concat(prefix, []string{"curl", "--disable", "--silent", "--insecure", "--noproxy", "", "--proxy", proxy, "--max-time", "120",
			"--write-out", "%{http_connect} %{http_code}"}, args)
		answer, err := exec.Command(command[0], command[1:]...).Output()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return string(answer)
	}
	nobody := asNobody("--")[1:]
	for url, want := range map[string]string{
		plain.URL + "/products/1":  "user 65534 may not use it",
		secure.URL + "/products/1": "403 000",
		proxy + "/ca.pem":          "user 65534 may not use it",
	} {
		if got := ask(nobody, url); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %s", url, got, want)
		}
	}
	wantSame(t, "pages", slices.Concat(plain.pages(), secure.pages()), []string{})
	if got := ask(nil, "--output", os.DevNull, plain.URL+"/products/1"); got != "000 200" {
		t.Errorf("its own user: %s", got)
	}
	if got := ask(nil, "--output", os.DevNull, secure.URL+"/products/1"); got != "200 200" {
		t.Errorf("its own user: %s", got)
	}
	io.WriteString(input, "\n")
	if err := e.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &e.err)
	}
	log, _ := os.ReadFile(logged)
	if n := strings.Count(string(log), "user 65534"); n != 1 {
		t.Errorf("%d lines, want one:\n%s", n, log)
	}
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may run a command as another user")
	}
}

// asNobody makes a command, which begins with --, run as the user nobody.
func asNobody(command ...string) []string {
	return append([]string{"--", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, command[1:]...)
}

// A run removes the folders of runs that were killed, and nothing else.
func TestRunRemovesFoldersOfKilledRuns(t *testing.T) {
	t.Parallel()
	sealedOrNot(t, func(t *testing.T, env []string) {
		w := newWorld(t)
		wait := func() *errand {
			e := w.errand(env, "--", "sh", "-c", "echo ready; read line")
			input, err := e.StdinPipe()
			must(t, err)
			t.Cleanup(func() { input.Close(); e.Wait() })
			out := &logLines{}
			e.Stdout = out
			must(t, e.Start())
			awaitText(t, out, "ready")
			return e
		}
		wait()
		killed := wait()
		w.wantRunFolders(2)
		must(t, killed.Process.Kill())
		killed.Process.Wait()
		w.wantRunFolders(2)

		foreign := t.TempDir()
		must(t, os.WriteFile(filepath.Join(foreign, "file"), nil, 0o600))
		must(t, os.Symlink(foreign, filepath.Join(w.temp, "robotsproxy-run-link")))
		must(t, os.WriteFile(filepath.Join(w.temp, "robotsproxy-run-file"), nil, 0o600))
		others := 2
		if os.Getuid() == 0 {
			others++
			folder := filepath.Join(w.temp, "robotsproxy-run-other")
			must(t, os.Mkdir(folder, 0o755))
			must(t, os.Chown(folder, 65534, 65534))
		}
		w.errand(env, "--", "true").must(t)
		w.wantRunFolders(1 + others)
		if !isFile(filepath.Join(foreign, "file")) {
			t.Error("a symbolic link was followed")
		}
	})
}

// awaitText waits until a program has written something.
func awaitText(t *testing.T, out *logLines, text string) {
	t.Helper()
	for deadline := time.After(testTimeout); ; {
		got, more := out.Read()
		if strings.Contains(got, text) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no %q; the program wrote %q", text, got)
		}
	}
}

// readTerminal has what is written to a terminal.
func readTerminal(master *os.File) *logLines {
	out := &logLines{}
	go func() {
		piece := make([]byte, 1024)
		for {
			n, err := master.Read(piece)
			if err != nil {
				return
			}
			out.Write(piece[:n])
		}
	}()
	return out
}

// openTerminal opens both ends of a new pseudoterminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudoterminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	return master, slave
}

// The folder that clients read is ready before the proxy serves.
func TestServeWritesTrust(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, name := range []string{"ca.pem", "ca-bundle.pem", "truststore.p12", "cacerts.p12", "wgetrc", filepath.Join("php", "robotsproxy.ini")} {
		if text, err := os.ReadFile(filepath.Join(w.dir, "trust", name)); err != nil || bytes.Contains(text, []byte("PRIVATE")) {
			t.Errorf("%s: %v, %d octets", name, err, len(text))
		}
	}
	o := newOrigin(t, "https", shop(), nil)
	env := exec.Command(program, "env", "--shell", "dotenv", "--data-dir", w.dir, "--listen", w.proxy)
	env.Env = []string{"HOME=" + w.dir}
	variables, err := env.Output()
	must(t, err)
	curl := exec.Command("curl", curlCommand(o.URL + "/products/1")[2:]...)
	curl.Env = append(strings.Split(strings.TrimSpace(string(variables)), "\n"), "PATH="+os.Getenv("PATH"))
	if out, err := curl.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(http.StatusOK) {
		t.Errorf("curl with what env prints: %s, %v", out, err)
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
