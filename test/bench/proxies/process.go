package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process that is measured. This program has started it, or is one of its
// descendants.
type process struct {
	cmd    *exec.Cmd
	log    string
	alone  bool // without its descendants
	exited chan struct{}
}

// startProcess starts a process that ends with this one. Its standard error, and its standard
// output if cmd has none, go to the file log.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the child has a descriptor of its own
	cmd.Stderr = f
	if cmd.Stdout == nil {
		cmd.Stdout = f
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// stop ends the process and waits for it. It kills a process that takes longer than three
// seconds.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// output returns the end of what the process wrote.
func (p *process) output() string {
	text, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(text[max(0, len(text)-500):]))
}

// cpu returns the CPU time, user and system, that the process and its descendants have taken
// since they began.
func (p *process) cpu() (time.Duration, error) {
	var total time.Duration
	for _, pid := range p.family() {
		// The clock of clock_getcpuclockid(3) counts nanoseconds, times(2) only centiseconds.
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
			return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
		}
		total += time.Duration(t.Nano())
	}
	return total, nil
}

// family returns the process and, unless it counts alone, its descendants.
func (p *process) family() []int {
	family := []int{p.cmd.Process.Pid}
	if p.alone {
		return family
	}
	for i := 0; i < len(family); i++ {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", family[i]))
		for _, task := range tasks {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", family[i], task.Name()))
			for _, child := range strings.Fields(string(children)) {
				pid, _ := strconv.Atoi(child)
				family = append(family, pid)
			}
		}
	}
	return family
}

// files returns how many descriptors the process and its descendants have open.
func (p *process) files() int {
	total := 0
	for _, pid := range p.family() {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		total += len(open)
	}
	return total
}

// memory is the resident memory of a process and its descendants, in octets.
type memory struct{ now, peak int64 }

func (p *process) memory() memory {
	var total memory
	for _, pid := range p.family() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			switch name {
			case "VmRSS":
				total.now += kib << 10
			case "VmHWM":
				total.peak += kib << 10
			}
		}
	}
	return total
}
