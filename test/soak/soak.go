package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// A soak is one run.
type soak struct {
	program string
	length  time.Duration // of the time with clients and faults
	seed    uint64
	clients int
	sites   int

	network network
	folder  string // all files of the run
	checker *checker
	origins []*origin
	proxies []*proxy // the first keeps its policies in SQLite, the second in Redis
	redis   *redis
	roots   *x509.CertPool                                  // what clients trust
	errands string                                          // the file of this program, as sealed commands start it
	missing struct{ redirect, sealed, redis, mount string } // why there is none of it; "" if there is

	pace time.Duration // about as long as between faults
}

// run runs the soak. It returns an error where it can't be run; what it finds is in the checker.
func (s *soak) run(ctx context.Context, progress io.Writer) error {
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	fmt.Fprint(progress, s.describeMissing())
	began := time.Now()
	if err := s.measureBefore(); err != nil {
		return err
	}
	during, end := context.WithTimeout(ctx, s.length)
	defer end()
	s.disrupt(during, began, progress)
	fmt.Fprintf(progress, "%v: clients and faults have ended\n", time.Since(began).Round(time.Second))
	for _, o := range s.origins {
		o.turn(well)
	}
	s.settle()
	s.endProxies()
	s.checkFigures()
	if ctx.Err() == nil {
		s.checkCoverage()
	}
	return nil
}

// disrupt lets clients and faults loose until ctx ends, and returns when all have ended.
func (s *soak) disrupt(ctx context.Context, began time.Time, progress io.Writer) {
	var actors sync.WaitGroup
	for i := range s.clients {
		c := &client{random: rand.New(rand.NewPCG(s.seed, uint64(i))), roots: s.roots, checker: s.checker, proxies: s.proxies, origins: s.origins}
		actors.Go(func() { c.run(ctx) })
	}
	actors.Go(func() { s.trouble(ctx, rand.New(rand.NewPCG(s.seed, 2000))) })
	actors.Go(func() { s.disturb(ctx, rand.New(rand.NewPCG(s.seed, 2001))) })
	if s.missing.sealed == "" {
		actors.Go(func() { s.seal(ctx, rand.New(rand.NewPCG(s.seed, 2002))) })
	}
	actors.Go(func() { s.watch(ctx, began, progress) })
	actors.Wait()
}

func (s *soak) endProxies() {
	for _, p := range s.proxies {
		if !p.hasEnded() {
			p.stop()
		}
		if err := checkDatabase(p.database()); err != nil {
			s.checker.fail("at the end of %s: %v", p.name, err)
		}
	}
}

// checkCoverage wants everything that was to happen to have happened.
func (s *soak) checkCoverage() {
	var want []string
	for _, f := range faults {
		if f.needs == nil || f.needs(s) == "" {
			want = append(want, "fault: "+f.name)
		}
	}
	for _, m := range manners {
		want = append(want, "visits: "+m.name)
	}
	for _, p := range s.proxies {
		for door := range p.doors {
			want = append(want, "door: "+string(door))
		}
	}
	if s.missing.sealed == "" {
		want = append(want, "sealed commands")
	}
	for _, m := range []mood{burst, down, wrongTLS} {
		want = append(want, "mood: "+string(m))
	}
	want = append(want, "passed: whole", "passed: slow", "passed: cut short", "passed: circle", "passed: failing", "passed: 5xx burst",
		"failed: http_response_incomplete", "failed: http_protocol_error", "refused: rule", "refused: unreachable",
		"sessions over HTTP/2", "visits to FTP servers", "robots.txt changed", "client: left within its body")
	for _, name := range want {
		if s.checker.counts[name] == 0 {
			s.checker.fail("none of this happened: %s", name)
		}
	}
}
