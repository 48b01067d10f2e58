package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// idleCase is a kind of idle connections.
type idleCase struct {
	name  string
	files int // descriptors that the proxy needs for each

	// open returns a worker that opens a connection with its first request, and keeps it.
	open func(s *site, r *running) worker
}

func idleCases() []idleCase {
	return []idleCase{
		{name: "TCP, before any request", files: 1, open: func(_ *site, r *running) worker {
			return silentClient{&client{proxy: r.address}}
		}},
		{name: "HTTP, kept alive after a request", files: 1, open: func(s *site, r *running) worker {
			return s.plainClients(r, 1, false)[0]
		}},
		idleReadTunnel,
		{name: "a tunnel that is read, HTTP/2", files: 1, open: func(s *site, r *running) worker {
			return &h2Client{&http.Client{Transport: newH2Transport(r.address)}, "https://" + s.secure() + allowedPath}
		}},
		{name: "a tunnel that is not read", files: 2, open: func(s *site, r *running) worker {
			authority, config := "127.0.0.1:"+s.ports.Secure, clientTLS("http/1.1")
			config.ServerName = "" // that of another host would have the proxy read the tunnel
			return &client{proxy: r.address, tunnel: authority, tls: config, next: always(get(allowedPath, authority))}
		}},
	}
}

var idleReadTunnel = idleCase{name: "a tunnel that is read, HTTP/1.1", files: 1, open: func(s *site, r *running) worker {
	return s.tunnelClient(r, clientTLS("http/1.1"), false, allowedPath)
}}

// silentClient is a worker that connects and sends nothing.
type silentClient struct{ *client }

func (c silentClient) request() error { return c.connect() }

// idleTunnels measures the memory that idle tunnels take after one request each. It starts a
// proxy for each number of tunnels, so that nothing else affects its memory.
func (b *bench) idleTunnels(ctx context.Context, k kind) {
	if k.cases != nil {
		return
	}
	for _, tunnels := range b.scale.idle {
		name := idleName(tunnels)
		switch {
		case ctx.Err() != nil:
			return
		case k.noTLS != "":
			b.leaveOut("%s: %s", k.name, k.noTLS)
			continue
		case k.slow && tunnels > 1000:
			b.leaveOut("%s: %s: this would take minutes", name, k.name)
			continue
		}
		fmt.Fprintf(b.progress, "%s: %s\n", name, k.name)
		if err := b.holding(ctx, k, idleReadTunnel, tunnels, func(_ *running, s sample) { b.results.add(name, k.name, s) }); err != nil {
			b.leaveOut("%s: %s: %v", name, k.name, err)
		}
	}
}

func idleName(tunnels int) string { return fmt.Sprintf("%d %s", tunnels, idleTunnels) }

const (
	requestsBeside = "requests beside "         // followed by the name of an idleCase
	withoutIdle    = "without idle connections" // the name of the proxy that requestsBeside compares with
)

// idleOfEach measures, for each kind of idle connections, what they take of a proxy, and how
// long another client's requests take beside them. Those are compared with the requests to a
// proxy without idle connections in the same rounds.
func (b *bench) idleOfEach(ctx context.Context) {
	k := b.holder
	k.name = withoutIdle
	without, err := k.start(b.site)
	if err != nil {
		b.leaveOut("%s: %v", idleOfEach, err)
		return
	}
	defer without.stop()
	var files unix.Rlimit // which the proxies inherit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		b.leaveOut("%s: reading the limit on open files: %v", idleOfEach, err)
		return
	}
	for _, c := range idleCases() {
		if ctx.Err() != nil {
			return
		}
		number := c.permitted(b.scale.idle[len(b.scale.idle)-1], files.Cur)
		if number == 0 {
			b.leaveOut("%s: the limit of %d open files is too low", c.name, files.Cur)
			continue
		}
		fmt.Fprintf(b.progress, "%d idle connections: %s\n", number, c.name)
		err := b.holding(ctx, b.holder, c, number, func(r *running, s sample) {
			b.results.add(c.name, r.name, s)
			b.interleave(ctx, requestsBeside+c.name, b.scale.rounds, []*running{r, without}, func(r *running) (sample, error) {
				workers := b.site.plainClients(r, 1, false)
				defer closeAll(workers)
				return b.observe(r, func() load { return closedLoop(ctx, workers, b.scale.each) }, workers)
			})
		})
		if err != nil {
			b.leaveOut("%s: %v", c.name, err)
		}
	}
}

// permitted returns how many connections of the kind, number at most, a proxy can hold that may
// have so many files open.
func (c *idleCase) permitted(number int, files uint64) int {
	const spare = 512 // files that are no idle connections; robotsproxy itself reserves 256
	if files < spare {
		return 0
	}
	return int(min(uint64(number), (files-spare)/uint64(c.files)))
}

// idleTime is how long connections have been idle when the memory is read.
const idleTime = time.Second

// holding starts a proxy that holds idle connections of kind c, and passes it to do with what
// they take. They are closed when do returns.
func (b *bench) holding(ctx context.Context, k kind, c idleCase, number int, do func(*running, sample)) error {
	r, err := k.start(b.site)
	if err != nil {
		return err
	}
	defer r.stop()
	workers := make([]worker, clients)
	for i := range workers {
		workers[i] = &opener{open: func() worker { return c.open(b.site, r) }}
	}
	defer closeAll(workers)
	// All connections share what the first ones need: certificates, connections to the origin.
	if l := closedLoop(ctx, workers, budget{requests: len(workers)}); l.err != nil {
		return l.err
	}
	memoryBefore, files := r.memory(), r.files()
	cpuBefore, err := r.cpu()
	if err != nil {
		return err
	}
	if l := closedLoop(ctx, workers, budget{requests: number}); l.err != nil {
		return l.err
	}
	// The kernel has connected clients that the proxy has still to accept. A few of the first
	// descriptors may be idle connections to the origin, which a proxy may close.
	if err := r.waitForFiles(ctx, files+number*c.files-2*len(workers)); err != nil {
		return err
	}
	time.Sleep(idleTime)
	cpu, err := r.cpu()
	if err != nil {
		return err
	}
	memory := r.memory()
	do(r, sample{
		memory: memory,
		number: number,
		held:   float64(memory.now-memoryBefore.now) / float64(number),
		cpu:    (cpu - cpuBefore) / time.Duration(number),
	})
	return nil
}

// waitForFiles waits until the proxy has so many descriptors open.
func (r *running) waitForFiles(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		open := r.files()
		if open >= number {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the proxy has %d files open, want %d at least: %w", open, number, ctx.Err())
		}
	}
}

// opener is a worker that opens a connection for each request and keeps it.
type opener struct {
	open func() worker
	kept []worker
}

func (o *opener) request() error {
	w := o.open()
	o.kept = append(o.kept, w)
	return w.request()
}

func (o *opener) close() { closeAll(o.kept) }
