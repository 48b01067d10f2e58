//go:build linux

package seal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// self prints what this process is.
	programs["self"] = func(args []string) error {
		folder, err := os.Getwd()
		if err != nil {
			return err
		}
		fmt.Println(os.Args[0], args, folder, os.Getenv("COLOUR"))
		fmt.Println("uid", os.Getuid(), os.Geteuid(), "gid", os.Getgid(), os.Getegid())
		fmt.Println("process", os.Getpid(), "parent", os.Getppid(), "group", unix.Getpgrp())
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
				fmt.Println(strings.Join(strings.Fields(line), " "))
			}
		}
		var opened []string
		for d := range 64 {
			// Those of Go's runtime are its own.
			link, err := os.Readlink(fmt.Sprint("/proc/self/fd/", d))
			if err == nil && !strings.HasPrefix(link, "anon_inode") && d > 2 {
				opened = append(opened, fmt.Sprint(d))
			}
		}
		fmt.Println("descriptors", opened)
		return nil
	}
	programs["exit"] = func([]string) error { os.Exit(42); return nil }
	programs["sleep"] = func([]string) error { fmt.Println("ready"); select {} }
	// sealer starts args as a sealed command, and prints the error.
	programs["sealer"] = func(args []string) error {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		network, err := Start(context.Background(), cmd, Options{})
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok {
				return err
			}
			fmt.Printf("%v\n%s\n", err, e.Obstacle)
			return nil
		}
		defer network.Close()
		return cmd.Wait()
	}
}

func TestCommandIsAsWithoutSealing(t *testing.T) {
	folder := t.TempDir()
	prepare := func(cmd *exec.Cmd) {
		cmd.Args[0] = "another name"
		cmd.Dir = folder
		cmd.Env = append(cmd.Env, "COLOUR=blue")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	unsealed := program("self", "one", "", "--two")
	prepare(unsealed)
	plain, err := unsealed.Output()
	if err != nil {
		t.Fatal(err)
	}
	sealed := program("self", "one", "", "--two")
	prepare(sealed)
	got := outputOf(t, sealed, Options{})
	for _, v := range []struct {
		output string
		cmd    *exec.Cmd
	}{{string(plain), unsealed}, {got, sealed}} {
		want := fmt.Sprintf("process %d parent %d group %[1]d\n", v.cmd.Process.Pid, os.Getpid())
		if !strings.Contains(v.output, want) {
			t.Errorf("got %s, want %s", v.output, want)
		}
	}
	same := func(output string) []string {
		return slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "process")
		})
	}
	if !slices.Equal(same(got), same(string(plain))) {
		t.Errorf("got\n%s, without sealing\n%s", got, plain)
	}
	const none = "0000000000000000\n"
	for _, line := range []string{"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none, "NoNewPrivs: 1\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("got %s, want %s", got, line)
		}
	}
}

func TestExtraFilesStay(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", "echo text >&3; (echo >&4) 2>/dev/null || echo closed >&3")
	cmd.ExtraFiles = []*os.File{w}
	outputOf(t, cmd, Options{})
	w.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "text\nclosed\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestExitCode(t *testing.T) {
	cmd := program("exit")
	start(t, cmd, Options{})
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 42 {
		t.Errorf("got %v", cmd.ProcessState)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		cmd := exec.Command("sleep", "1000")
		start(t, cmd, Options{})
		cmd.Process.Signal(signal)
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != signal {
			t.Errorf("%v: got %v", signal, cmd.ProcessState)
		}
	}
}

func init() {
	programs["parent"] = func([]string) error {
		cmd := program("sleep")
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		if _, err := Start(context.Background(), cmd, Options{}); err != nil {
			return err
		}
		return cmd.Wait()
	}
}

func TestCommandEndsWithItsParent(t *testing.T) {
	needNamespaces(t)
	parent := program("parent")
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("got %q, %v", line, err)
	}
	parent.Process.Kill()
	if _, err := lines.ReadString('\n'); !errors.Is(err, io.EOF) { // the command holds the pipe too
		t.Error(err)
	}
	parent.Wait()
}

func TestCommandThatCannotBeExecuted(t *testing.T) {
	needNamespaces(t)
	folder := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{filepath.Join(folder, "missing"), fs.ErrNotExist},
		{write("interpreter", "#!/no/such/file\n", 0o755), fs.ErrNotExist},
		{write("plain", "text", 0o644), fs.ErrPermission},
		{write("text", "text", 0o755), syscall.ENOEXEC},
		{"no-such-command-anywhere", exec.ErrNotFound},
	} {
		_, err := Start(t.Context(), exec.Command(c.path), Options{})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.path, err, c.want)
		}
		if _, isSealing := errors.AsType[*Error](err); isSealing {
			t.Errorf("%s: a failed exec is reported as a failed seal: %v", c.path, err)
		}
	}
}

func TestEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "started")
	if _, err := Start(ctx, exec.Command("touch", file), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was started")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Ports: slices.Repeat([]uint16{80}, MaxPorts+1)},
		{Ports: []uint16{0}},
		{Forwards: []uint16{0}},
		{Proxy: netip.MustParseAddrPort("192.0.2.1:80")},
	} {
		if _, err := Start(t.Context(), exec.Command("true"), o); err == nil {
			t.Errorf("%v: no error", o)
		}
	}
}

func TestProgramThatDoesNotCallMain(t *testing.T) {
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := Start(t.Context(), exec.Command("true"), Options{}); err == nil || !strings.Contains(err.Error(), "seal.Main") {
		t.Errorf("got %v", err)
	}
}

func TestNameOfTheStartAloneDoesNothing(t *testing.T) {
	for _, args := range [][]string{{startName}, {startName, "3", "true", "true"}, {startName, "x", "true", "true"}} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = args
		output, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(output), "outside of one") {
			t.Errorf("%q: got %q, %v", args, output, err)
		}
	}
}

// TestAsAnotherUser runs all tests again without the rights of root.
func TestAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	folder, err := os.MkdirTemp("", "seal-test-") // t.TempDir is for root alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	const nobody = 65534
	copied := filepath.Join(folder, "test")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(copied, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(folder, 0o777|fs.ModeSticky), os.Chmod(copied, 0o755)); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(copied, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "HOME="+folder, "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// BenchmarkTrue shows what sealing adds to the time in which a command runs.
func BenchmarkTrue(b *testing.B) {
	needNamespaces(b)
	b.Run("unsealed", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range []struct {
		name    string
		options Options
	}{
		{"sealed", Options{}},
		{"list of ports", Options{Ports: []uint16{80, 443, 8080, 8443}, onlyPorts: true}},
		{"with trust", Options{Trust: writeTrust(b)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.Command("true")
				network, err := Start(b.Context(), cmd, c.options)
				if err != nil {
					b.Fatal(err)
				}
				if err := errors.Join(cmd.Wait(), network.Close()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
