package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// What sealed commands cost: each request by the transparent door beside one by CONNECT, and
// the start of a command beside that of one that is not sealed.
const (
	sealedKept  = "sealed, HTTPS over kept-alive connections"
	sealedNew   = "sealed, HTTPS, a new connection and TLS each"
	sealedStart = "sealed, the start of a command"
)

// The doors to the proxy that a sealed command has, and the ways to start a command. They take
// the places of proxies in the results.
const (
	byTransparent = "transparent door"
	byConnect     = "CONNECT"
	startSealed   = "run --sealed -- true"
	startPlain    = "run -- true"
)

func sealedCases() []benchCase {
	doors := func(each bool) func(*site, *running) []worker {
		return func(s *site, r *running) []worker {
			workers := s.tunnelClients(r, clients, clientTLS("http/1.1"), each)
			for _, w := range workers {
				if r.name == byTransparent {
					w.(*client).tunnel = ""
				}
			}
			return workers
		}
	}
	each := func(sc scale) budget { return sc.each }
	return []benchCase{
		{name: sealedKept, tls: true, budget: each, workers: doors(false)},
		{name: sealedNew, tls: true, budget: each, workers: doors(true)},
	}
}

// sealed measures sealed commands, as far as b.cases matches.
func (b *bench) sealed(ctx context.Context) {
	measure := func(name string, do func(config string) error) {
		if !b.cases.MatchString(name) || ctx.Err() != nil {
			return
		}
		config, err := b.sealedConfig()
		if err == nil {
			err = do(config)
		}
		if err != nil {
			b.leaveOut("%s: %v", name, err)
		}
	}
	for _, c := range sealedCases() {
		measure(c.name, func(config string) error { return b.sealedRequests(ctx, c.name, config) })
	}
	measure(sealedStart, func(config string) error { return b.sealedStarts(ctx, config) })
}

// sealedConfig writes a configuration, and returns the file.
func (b *bench) sealedConfig() (file string, err error) {
	folder, err := os.MkdirTemp(b.site.folder, "sealed-")
	if err != nil {
		return "", err
	}
	return writeConfig(b.site, folder, "127.0.0.1:0", "none")
}

// finer is by how much there are more and shorter rounds of the doors than of proxies. The doors
// differ by less than what else a machine does in a second.
const finer = 8

// sealedRequests has this program measure a case from inside a sealed command.
func (b *bench) sealedRequests(ctx context.Context, name, config string) error {
	load, err := ownRole("sealed", name, b.site.ports.Secure, strconv.Itoa(finer*b.scale.rounds), (b.scale.each.length / finer).String(), strconv.Itoa(b.scale.each.requests))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, b.program, append([]string{"run", "--sealed", "--quiet", "--config", config, "--", load.Path}, load.Args[1:]...)...)
	cmd.Stderr = b.progress
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for scanner := bufio.NewScanner(lines); scanner.Scan(); {
		var door string
		var s sample
		if _, err := fmt.Sscanf(scanner.Text(), sampleFormat, &door, &s.cpu, &s.rate, &s.p50, &s.p99); err != nil {
			return errors.Join(fmt.Errorf("reading %q: %w", scanner.Text(), err), cmd.Process.Kill(), cmd.Wait())
		}
		b.results.add(name, door, s)
	}
	return cmd.Wait()
}

// sampleFormat is how measureSealed prints a sample of a door.
const sampleFormat = "%q %d %g %d %d\n"

// measureSealed is the role of a sealed command. It measures a case by either door of the
// proxy, which is its parent, and prints the samples.
func measureSealed(args []string) error {
	if len(args) != 5 {
		return errors.New("the sealed command needs a case, a port, and how much to measure")
	}
	rounds, roundsErr := strconv.Atoi(args[2])
	length, lengthErr := time.ParseDuration(args[3])
	requests, requestsErr := strconv.Atoi(args[4])
	proxy, proxyErr := url.Parse(os.Getenv("https_proxy"))
	parent, parentErr := os.FindProcess(os.Getppid())
	if err := errors.Join(roundsErr, lengthErr, requestsErr, proxyErr, parentErr); err != nil {
		return err
	}
	b := &bench{
		site:     &site{ports: originPorts{Secure: args[1]}},
		scale:    scale{rounds: rounds, each: budget{length, requests}},
		progress: os.Stderr,
		results:  results{},
	}
	p := &process{cmd: &exec.Cmd{Process: parent}, alone: true} // of its children, this process is one
	doors := []*running{
		{kind: kind{name: byConnect}, process: p, address: proxy.Host},
		// Any address will do: the proxy goes by the name of the server that TLS asks for.
		{kind: kind{name: byTransparent}, process: p, address: net.JoinHostPort("192.0.2.1", args[1])},
	}
	for _, c := range sealedCases() {
		if c.name == args[0] {
			b.requests(context.Background(), &c, rounds, doors)
		}
	}
	for _, door := range doors {
		for _, s := range b.results[args[0]][door.name] {
			fmt.Printf(sampleFormat, door.name, s.cpu, s.rate, s.p50, s.p99)
		}
	}
	if len(b.notes) > 0 {
		return errors.New(b.notes[0])
	}
	return nil
}

// startsARound is how many starts of each kind there are in a round.
const startsARound = 10

// sealedStarts measures how long a command takes that does nothing, and the CPU time of all
// processes together.
func (b *bench) sealedStarts(ctx context.Context, config string) error {
	start := func(name, flag string) error {
		cmd := exec.CommandContext(ctx, b.program, "run", flag, "--config", config, "--", "true")
		began := time.Now()
		output, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		b.results.add(sealedStart, name, sample{p50: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()})
		return nil
	}
	if err := exec.CommandContext(ctx, b.program, "run", "--config", config, "--", "true").Run(); err != nil { // makes the CA
		return err
	}
	for round := range b.scale.rounds {
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", sealedStart, round+1, b.scale.rounds)
		for range startsARound {
			if err := errors.Join(start(startPlain, "--sealed=false"), start(startSealed, "--sealed")); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportSealed writes the table of sealed commands.
func (b *bench) reportSealed(out io.Writer) {
	heading := fmt.Sprintf("\n| sealed commands | %s, CPU, µs | %s, CPU, µs | ratio | p50, µs | p50, µs |\n|---|---:|---:|---:|---:|---:|\n", byTransparent, byConnect)
	for _, c := range sealedCases() {
		is, than := b.results[c.name][byTransparent], b.results[c.name][byConnect]
		if len(is) == 0 {
			continue
		}
		fmt.Fprintf(out, "%s| %s | %.1f | %.1f | %.2f | %.0f | %.0f |\n", heading, c.name, float64(median(is, cpuOf))/microsecond, float64(median(than, cpuOf))/microsecond,
			ratio(is, than, cpuOf), float64(median(is, p50Of))/microsecond, float64(median(than, p50Of))/microsecond)
		heading = ""
	}
	if is, than := b.results[sealedStart][startSealed], b.results[sealedStart][startPlain]; len(is) > 0 {
		fmt.Fprintf(out, "\n| %s, ms | %s | %s | more |\n|---|---:|---:|---:|\n", sealedStart, startSealed, startPlain)
		for _, row := range []struct {
			what string
			read func(sample) time.Duration
		}{{"time", p50Of}, {"CPU", cpuOf}} {
			fmt.Fprintf(out, "| %s | %.1f | %.1f | %.1f |\n", row.what, float64(median(is, row.read))/millisecond, float64(median(than, row.read))/millisecond, middle(differences(is, than, row.read)))
		}
	}
}

// differences returns, for each round, by how many milliseconds a value of samples exceeds that
// of others.
func differences(samples, others []sample, read func(sample) time.Duration) []float64 {
	var all []float64
	for i := range min(len(samples), len(others)) {
		all = append(all, float64(read(samples[i])-read(others[i]))/millisecond)
	}
	return all
}
