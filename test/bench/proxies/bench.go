package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// bench measures proxies and keeps the results.
type bench struct {
	site     *site
	kinds    []kind
	holder   kind   // robotsproxy, set up to hold idle connections
	program  string // robotsproxy, as built
	scale    scale
	cases    *regexp.Regexp // matches the names of those to measure
	progress io.Writer

	results results
	notes   []string // for the end of the report
}

// sample is one measurement of a proxy. What a case does not measure is 0.
type sample struct {
	cpu      time.Duration // the proxy's own, a request or an idle connection
	rate     float64       // requests or octets a second
	p50, p99 time.Duration
	memory   memory
	files    int     // descriptors
	number   int     // of idle connections
	held     float64 // octets an idle connection
}

// results are the samples by case and proxy.
type results map[string]map[string][]sample

func (r results) add(name, proxy string, s sample) {
	if r[name] == nil {
		r[name] = map[string][]sample{}
	}
	r[name][proxy] = append(r[name][proxy], s)
}

const (
	halfLoad    = "HTTP, half of the load that ReverseProxy and robotsproxy can serve"
	plainDown   = "HTTP, one download"
	secureDown  = "HTTPS, one download"
	idleTunnels = "idle tunnels"
	idleOfEach  = "idle connections of each kind"
	afterRun    = "memory"
	leftBy      = "left by " // followed by the name of a case that is measured apart
)

// measure measures all cases with the proxies whose name matches wanted.
func (b *bench) measure(ctx context.Context, wanted *regexp.Regexp) error {
	b.kinds = slices.DeleteFunc(b.kinds, func(k kind) bool { return !wanted.MatchString(k.name) })
	proxies := b.startAll()
	defer func() {
		for _, r := range proxies {
			r.stop()
		}
	}()
	if err := b.checkEnforcement(proxies); err != nil {
		return err
	}
	for _, c := range benchCases() {
		if b.cases.MatchString(c.name) && !c.apart {
			b.requests(ctx, &c, b.scale.rounds, proxies)
		}
	}
	if b.cases.MatchString(halfLoad) {
		b.halfLoad(ctx, proxies)
	}
	for _, name := range []string{plainDown, secureDown} {
		if b.cases.MatchString(name) {
			b.downloads(ctx, name, proxies)
		}
	}
	for _, r := range proxies {
		b.results.add(afterRun, r.name, sample{memory: r.memory()})
	}
	for _, c := range benchCases() {
		if b.cases.MatchString(c.name) && c.apart {
			b.apart(ctx, &c)
		}
	}
	if b.cases.MatchString(idleTunnels) {
		for _, k := range b.kinds {
			b.idleTunnels(ctx, k)
		}
	}
	if b.cases.MatchString(idleOfEach) && wanted.MatchString(b.holder.name) {
		b.idleOfEach(ctx)
	}
	if wanted.MatchString(ours) {
		b.sealed(ctx)
	}
	return ctx.Err()
}

// startAll starts the proxies that can be started, and notes the others.
func (b *bench) startAll() []*running {
	var proxies []*running
	for _, k := range b.kinds {
		r, err := k.start(b.site)
		if err != nil {
			b.leaveOut("%s: %v", k.name, err)
			continue
		}
		proxies = append(proxies, r)
	}
	return proxies
}

// note keeps a line for the end of the report.
func (b *bench) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !slices.Contains(b.notes, line) {
		b.notes = append(b.notes, line)
		fmt.Fprintln(b.progress, line)
	}
}

// leaveOut notes what is left out, and why.
func (b *bench) leaveOut(format string, args ...any) { b.note("left out: "+format, args...) }

// checkEnforcement returns an error unless robotsproxy obeys robots.txt, which the others need
// not do.
func (b *bench) checkEnforcement(proxies []*running) error {
	for _, r := range proxies {
		if r.name != ours && r.name != logging && r.name != signing {
			continue
		}
		transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.address}), DisableKeepAlives: true}
		for path, want := range map[string]int{allowedPath: http.StatusOK, disallowedPath: http.StatusForbidden} {
			resp, err := (&http.Client{Transport: transport}).Get("http://" + b.site.plain() + path)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				return fmt.Errorf("%s answers %s for %s, want %d", r.name, resp.Status, path, want)
			}
		}
	}
	return nil
}

// interleave calls do for all proxies in turn, and in the opposite order every other round, so
// that changes on the machine affect all of them alike.
func (b *bench) interleave(ctx context.Context, name string, rounds int, proxies []*running, do func(r *running) (sample, error)) {
	failed := map[*running]bool{}
	for round := range rounds {
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", name, round+1, rounds)
		for _, r := range proxies {
			if ctx.Err() != nil {
				return
			}
			if failed[r] || r.slow && round > 0 {
				continue
			}
			s, err := do(r)
			if err != nil {
				failed[r] = true
				b.leaveOut("%s: %s: %v", name, r.name, err)
				continue
			}
			b.results.add(name, r.name, s)
		}
		slices.Reverse(proxies)
	}
}

// requests measures a case with those of the proxies that can serve it.
func (b *bench) requests(ctx context.Context, c *benchCase, rounds int, proxies []*running) {
	var able []*running
	for _, r := range proxies {
		if why, ok := c.measures(&r.kind); ok {
			able = append(able, r)
		} else if why != "" {
			b.leaveOut("%s: %s", r.name, why)
		}
	}
	b.interleave(ctx, c.name, rounds, able, func(r *running) (sample, error) {
		budget := c.budget(b.scale)
		workers := c.workers(b.site, r)
		if budget.requests > 0 {
			workers = workers[:min(len(workers), budget.requests)]
		}
		defer closeAll(workers)
		if c.apart {
			if l := closedLoop(ctx, workers, warmup(workers)); l.err != nil {
				return sample{}, l.err
			}
		}
		s, err := b.observe(r, func() load { return closedLoop(ctx, workers, budget) }, workers)
		if c.name == tunnelAgain && !resumes(workers) {
			b.note("%s: %s resumes no session", c.name, r.name)
		}
		return s, err
	})
}

// warmup is the budget in which a proxy opens as many connections to the origin as the workers
// need at once.
func warmup(workers []worker) budget { return budget{requests: 3 * len(workers)} }

// apart measures a case with proxies of its own in a third of the rounds, and then what they
// hold after all clients have left.
func (b *bench) apart(ctx context.Context, c *benchCase) {
	proxies := b.startAll()
	defer func() {
		for _, r := range proxies {
			r.stop()
		}
	}()
	b.requests(ctx, c, max(1, b.scale.rounds/3), proxies)
	time.Sleep(idleTime)
	for _, r := range proxies {
		if len(b.results[c.name][r.name]) > 0 {
			b.results.add(leftBy+c.name, r.name, sample{memory: r.memory(), files: r.files()})
		}
	}
}

// resumes reports whether most of the workers' handshakes resumed a session.
func resumes(workers []worker) bool {
	handshakes, resumed := 0, 0
	for _, w := range workers {
		handshakes += w.(*client).handshakes
		resumed += w.(*client).resumed
	}
	return 2*resumed > handshakes
}

// observe measures what a proxy takes for the load that do makes. Each of the workers makes a
// request before.
func (b *bench) observe(r *running, do func() load, workers []worker) (sample, error) {
	for _, w := range workers {
		if err := w.request(); err != nil {
			return sample{}, err
		}
	}
	before, err := r.cpu()
	if err != nil {
		return sample{}, err
	}
	l := do()
	after, err := r.cpu()
	if err := errors.Join(err, l.err); err != nil {
		return sample{}, err
	}
	if l.requests == 0 {
		return sample{}, errors.New("no request was answered in time")
	}
	return sample{
		cpu:  (after - before) / time.Duration(l.requests),
		rate: float64(l.requests) / l.took.Seconds(),
		p50:  l.quantile(0.5),
		p99:  l.quantile(0.99),
	}, nil
}

// halfLoad measures how long responses take at half of the rate that the slower of robotsproxy
// and ReverseProxy can serve. A 99th percentile needs more rounds than a mean.
func (b *bench) halfLoad(ctx context.Context, proxies []*running) {
	maxRate := 0.0
	var two []*running
	for _, r := range proxies {
		if r.name != ours && r.name != floor {
			continue
		}
		two = append(two, r)
		workers := b.site.plainClients(r, clients, false)
		l := closedLoop(ctx, workers, b.scale.each)
		closeAll(workers)
		if l.err != nil {
			b.leaveOut("%s: %s: %v", halfLoad, r.name, l.err)
			return
		}
		if rate := float64(l.requests) / l.took.Seconds(); maxRate == 0 || rate < maxRate {
			maxRate = rate
		}
	}
	if len(two) < 2 {
		return
	}
	b.interleave(ctx, halfLoad, 3*b.scale.rounds, two, func(r *running) (sample, error) {
		workers := b.site.plainClients(r, 2*clients, false)
		defer closeAll(workers)
		return b.observe(r, func() load { return openLoop(ctx, workers, b.scale.each, maxRate/2) }, workers)
	})
}

// downloads measures one long response.
func (b *bench) downloads(ctx context.Context, name string, proxies []*running) {
	path := fmt.Sprintf("/octets/%d", b.scale.download)
	able := slices.DeleteFunc(slices.Clone(proxies), func(r *running) bool {
		return r.cases != nil || name == secureDown && r.noTLS != ""
	})
	b.interleave(ctx, name, b.scale.rounds, able, func(r *running) (sample, error) {
		c := b.site.plainClients(r, 1, false)[0].(*client)
		c.next = always(get("http://"+b.site.plain()+path, b.site.plain()))
		if name == secureDown {
			c = b.site.tunnelClient(r, clientTLS("http/1.1"), false, path)
		}
		defer c.close()
		if err := c.connect(); err != nil {
			return sample{}, err
		}
		s, err := b.observe(r, func() load { return closedLoop(ctx, []worker{c}, budget{requests: 1}) }, nil)
		s.rate *= float64(b.scale.download)
		return s, err
	})
}

func closeAll(workers []worker) {
	for _, w := range workers {
		w.close()
	}
}
