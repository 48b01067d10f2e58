package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A proxy is the program under test. It keeps its addresses and files when it is started
// again.
type proxy struct {
	name    string
	program string
	user    uint32 // whom it runs as; 0 means the user of the run
	folder  string // all its files
	config  string // its configuration
	checker *checker
	doors   map[doorKind]string // the addresses of its doors
	admin   string
	log     *journal
	redis   *redis // that it uses; nil: none

	grace time.Duration // shutdown_grace, as the configuration file has it

	samples       []sample           // during the run
	before, after map[string]float64 // what it took before any client came, and after all had left

	mu       sync.Mutex
	life     int // see currentLife
	replaced int // how often a process has left its place to the next one while both ran
	cmd      *exec.Cmd
	exited   chan struct{}
	replaces sync.WaitGroup // processes that have left their place, and end
}

// currentLife numbers the lives of the process, and the times between them: a number is odd
// while the proxy is away.
func (p *proxy) currentLife() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// isAway says whether a proxy is away in a life of this number.
func isAway(life int) bool { return life%2 == 1 }

func (p *proxy) data() string     { return filepath.Join(p.folder, "data") }
func (p *proxy) file() string     { return filepath.Join(p.folder, "robotsproxy.yaml") }
func (p *proxy) database() string { return filepath.Join(p.data(), "policies.db") }

// configure replaces the configuration file by the proxy's configuration, and more. A proxy that
// reads it meanwhile finds all of the old one or all of the new one.
func (p *proxy) configure(more string) error {
	next := p.file() + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%sshutdown_grace: %v\n%s", p.config, p.grace, more), 0o644); err != nil {
		return err
	}
	return os.Rename(next, p.file())
}

// currentPlace is how often a process has left its place to the next one.
func (p *proxy) currentPlace() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaced
}

// startTimeout ends what hangs, and nothing that is only slow.
const startTimeout = 2 * time.Minute

// start starts the process, and returns when it is ready.
func (p *proxy) start() error {
	cmd, exited, err := p.launch(p.log)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.cmd, p.exited = cmd, exited
	p.mu.Unlock()
	err = p.await(exited, func() bool {
		status, _, err := p.ask(http.MethodGet, "/readyz")
		return err == nil && status == http.StatusOK
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if isAway(p.life) {
		p.life++
	}
	return nil
}

// launch starts a process that logs to log. exited is closed when it has ended.
func (p *proxy) launch(log io.Writer) (cmd *exec.Cmd, exited chan struct{}, err error) {
	cmd = exec.Command(p.program, "serve", "--config", p.file(), "--data-dir", p.data())
	cmd.Env = []string{"HOME=" + p.folder, "PATH=" + os.Getenv("PATH")}
	cmd.Stderr, cmd.Dir = log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.user, Gid: p.user}
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	exited = make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	return cmd, exited, nil
}

// await waits until a process is ready that was launched.
func (p *proxy) await(exited chan struct{}, isReady func() bool) error {
	for deadline := time.Now().Add(startTimeout); !isReady(); {
		select {
		case <-exited:
			return fmt.Errorf("%s ended at its start; its log ends with\n%s", p.name, p.log.tail())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready %v after its start; its log ends with\n%s", p.name, startTimeout, p.log.tail())
		}
	}
	return nil
}

// replacedGrace is the shutdown_grace of a process that the next one replaces: longer than any
// exchange takes. Others have a short one.
const (
	replacedGrace = patience
	endedGrace    = 3 * time.Second
)

// replace starts the next process beside the present one (reuse_port), and has the present one
// end, which must lose nothing. It returns when the next one has its place.
func (p *proxy) replace() error {
	p.replaces.Wait() // the kernel leads connections rightly between two processes, not three
	p.grace = replacedGrace
	if err := p.configure(""); err != nil {
		return err
	}
	if status, body, err := p.ask(http.MethodPost, "/api/v1/reload"); err != nil || status != http.StatusOK {
		return fmt.Errorf("reloading: status %d, %s, %v", status, body, err)
	}
	p.grace = endedGrace
	if err := p.configure(""); err != nil {
		return err
	}
	serving := newJournal(p.name, p.checker)
	cmd, exited, err := p.launch(io.MultiWriter(p.log, serving))
	if err != nil {
		return err
	}
	if err := p.await(exited, func() bool { return strings.Contains(serving.tail(), `"message":"serving"`) }); err != nil {
		return err
	}
	p.mu.Lock()
	last, lastExited := p.cmd, p.exited
	p.cmd, p.exited = cmd, exited
	p.life += 2
	p.replaced++
	p.mu.Unlock()
	last.Process.Signal(syscall.SIGTERM)
	p.replaces.Go(func() {
		p.awaitEnd(last, lastExited)
	})
	return nil
}

// leave notes that the proxy is going away, and returns its process.
func (p *proxy) leave() (*exec.Cmd, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	return p.cmd, p.exited
}

// kill ends the process as a crash would.
func (p *proxy) kill() {
	cmd, exited := p.leave()
	cmd.Process.Kill()
	<-exited
}

// stop ends the process as an operator would, who wants the exit code 0.
func (p *proxy) stop() {
	p.replaces.Wait()
	cmd, exited := p.leave()
	cmd.Process.Signal(syscall.SIGTERM)
	p.awaitEnd(cmd, exited)
}

// awaitEnd waits for the end of a process after SIGTERM.
func (p *proxy) awaitEnd(cmd *exec.Cmd, exited chan struct{}) {
	select {
	case <-exited:
	case <-time.After(startTimeout):
		p.checker.fail("%s did not end after SIGTERM; its goroutines:\n%s", p.name, p.dump(cmd, exited))
		cmd.Process.Kill()
		<-exited
		return
	}
	if !cmd.ProcessState.Success() {
		p.checker.fail("%s after SIGTERM: %v; its log ends with\n%s", p.name, cmd.ProcessState, p.log.tail())
	}
}

// dump ends a process, and returns its goroutines, which the Go runtime then writes.
func (p *proxy) dump(cmd *exec.Cmd, exited chan struct{}) string {
	p.log.keep(1 << 20)
	cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-exited:
	case <-time.After(10 * time.Second):
	}
	text := p.log.tail()
	return text[max(strings.Index(text, "SIGQUIT"), 0):]
}

// hasEnded says whether the process has ended although nobody told it to.
func (p *proxy) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.exited:
		return !isAway(p.life)
	default:
		return false
	}
}

func (p *proxy) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd.Process.Signal(s)
}

var adminClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}

// ask asks the admin server.
func (p *proxy) ask(method, path string) (status int, body string, err error) {
	r, err := http.NewRequest(method, "http://"+p.admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := adminClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// measure returns what the process takes now, by the names of bounds.
func (p *proxy) measure() (map[string]float64, error) {
	_, metrics, err := p.ask(http.MethodGet, "/metrics")
	if err != nil {
		return nil, err
	}
	figures := map[string]float64{}
	for line := range strings.Lines(metrics) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if figure := map[string]string{"go_goroutines": "goroutines", "process_resident_memory_bytes": "memory"}[name]; figure != "" {
			if figures[figure], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("reading the metric %s: %w", name, err)
			}
		}
	}
	p.mu.Lock()
	pid := p.cmd.Process.Pid
	p.mu.Unlock()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, err
	}
	figures["descriptors"] = float64(len(files))
	if p.redis != nil {
		// Idle connections to Redis are kept for the next question, 32 at most.
		if clients, err := p.redis.clients(); err == nil {
			figures["descriptors"] -= float64(clients - 1)
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(p.database() + suffix); err == nil {
			figures["database"] += float64(info.Size())
		}
	}
	return figures, nil
}
