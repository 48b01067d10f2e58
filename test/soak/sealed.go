package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// errandVariable makes this program the client in a sealed command: it asks for the pages
// that its standard input names, without a word to proxies, and prints what it got.
const errandVariable = "SOAK_ERRAND"

// An errand is one request of a sealed command, and what came of it.
type errand struct {
	ID     uint64
	URL    string
	Agent  string
	Status int
	Header http.Header
	Body   []byte
	Whole  bool
	Err    string
}

// runErrands is the part of the client.
func runErrands(in io.Reader, out io.Writer) error {
	var errands []errand
	if err := json.NewDecoder(in).Decode(&errands); err != nil {
		return fmt.Errorf("reading the errands: %w", err)
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       patience,
	}
	for i := range errands {
		e := &errands[i]
		if err := e.run(&client); err != nil {
			e.Err = err.Error()
		}
	}
	return json.NewEncoder(out).Encode(errands)
}

func (e *errand) run(client *http.Client) error {
	r, err := http.NewRequest(http.MethodGet, e.URL, nil)
	if err != nil {
		return err
	}
	r.Header = http.Header{"User-Agent": {e.Agent}, idField: {fmt.Sprint(e.ID)}, "Accept": {"application/problem+json"}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	e.Status, e.Header = resp.StatusCode, resp.Header
	e.Body, err = io.ReadAll(io.LimitReader(resp.Body, enough))
	e.Whole = err == nil && len(e.Body) < enough
	return err
}

// seal runs sealed commands until ctx ends.
func (s *soak) seal(ctx context.Context, random *rand.Rand) {
	for pause(ctx, time.Duration(random.IntN(3000))*time.Millisecond) {
		if err := s.sealedCommand(ctx, random); err != nil && ctx.Err() == nil {
			s.checker.fail("a sealed command: %v", err)
		}
	}
}

// sealedCommand runs one sealed command, and checks what it got.
func (s *soak) sealedCommand(ctx context.Context, random *rand.Rand) error {
	var exchanges []*exchange
	var errands []errand
	for range 1 + random.IntN(8) {
		o := s.origins[random.IntN(len(s.origins))]
		if o.ftp {
			continue // only HTTP leads out
		}
		const agent = "OtherBot/2.0"
		x := s.checker.begin(exchange{origin: o, path: randomPath(random), agent: agent, method: http.MethodGet, door: "a sealed command"})
		exchanges = append(exchanges, x)
		errands = append(errands, errand{ID: x.id, URL: o.url(x.path), Agent: agent})
	}
	left := true
	defer func() {
		if left {
			for _, x := range exchanges {
				s.checker.abandon(x, "a sealed command that ended early")
			}
		}
	}()
	in, err := json.Marshal(errands)
	if err != nil {
		return err
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.program, "run", "--sealed", "--config", filepath.Join(s.folder, "sealed.yaml"),
		"--data-dir", filepath.Join(s.folder, "sealed"), "--", s.errands)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = bytes.NewReader(in), &out, &stderr, "/"
	cmd.Env = []string{"HOME=" + s.folder, "PATH=" + os.Getenv("PATH"), errandVariable + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: sealedUser, Gid: sealedUser}}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, &stderr)
	}
	if err := json.Unmarshal(out.Bytes(), &errands); err != nil {
		return fmt.Errorf("reading what it prints: %w", err)
	}
	left = false
	for i, x := range exchanges {
		e := errands[i]
		got := outcome{status: e.Status, header: e.Header, octets: len(e.Body), text: e.Body, complete: e.Whole, err: fmt.Errorf("%s", e.Err)}
		compared := compareWith(x.page.body())
		compared.Write(e.Body)
		got.differs = compared.differs
		if x.page.fault == endless && got.octets >= enough {
			s.checker.abandon(x, "has enough of an endless body")
			continue
		}
		s.checker.end(x, got)
	}
	s.checker.count("sealed commands", 1)
	return nil
}
