package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A fault is what happens to the proxies, or to what they need, while clients go on.
type fault struct {
	name     string
	inject   func(*soak, context.Context, *rand.Rand) error
	needs    func(*soak) string // what is missing for it; "" if nothing
	endsLife bool               // of a proxy's process
}

var faults = []fault{
	{name: "configuration reloaded", inject: (*soak).reload},
	{name: "invalid configuration refused", inject: (*soak).reloadInvalid},
	{name: "Redis killed", inject: (*soak).killRedis, needs: func(s *soak) string { return s.missing.redis }},
	{name: "disk filled", inject: (*soak).fillDisk, needs: func(s *soak) string { return s.missing.mount }},
	{name: "proxy killed on a full disk", inject: (*soak).killOnFullDisk, needs: func(s *soak) string { return s.missing.mount }, endsLife: true},
	{name: "proxy killed", inject: (*soak).killProxy, endsLife: true},
	{name: "proxy restarted", inject: (*soak).restartProxy, endsLife: true},
	{name: "proxy replaced", inject: (*soak).replaceProxy, endsLife: true},
}

// disturb injects all faults, one at a time: first each once, then those that end no process
// often, and one that ends a process five more times. So a process lives for a good part of
// the run, in which it can show a leak.
func (s *soak) disturb(ctx context.Context, random *rand.Rand) {
	var all, gentle, deadly []fault
	for _, f := range faults {
		switch {
		case f.needs != nil && f.needs(s) != "":
			continue
		case f.endsLife:
			deadly = append(deadly, f)
		default:
			gentle = append(gentle, f)
		}
		all = append(all, f)
	}
	s.pace = min(s.length/time.Duration(3*len(all)), time.Minute)
	var ended time.Time // when the last process was
	for _, i := range random.Perm(len(all)) {
		if !s.inject(ctx, random, all[i]) {
			return
		}
		ended = time.Now()
	}
	for {
		next := gentle[random.IntN(len(gentle))]
		if time.Since(ended) > s.length/6 {
			next, ended = deadly[random.IntN(len(deadly))], time.Now()
		}
		if !s.inject(ctx, random, next) {
			return
		}
	}
}

// inject injects one fault after a while, or returns false when ctx ends.
func (s *soak) inject(ctx context.Context, random *rand.Rand, f fault) bool {
	if !pause(ctx, s.pace/2+s.holds(random)/2) {
		return false
	}
	if err := f.inject(s, ctx, random); err != nil {
		s.checker.fail("%s: %v", f.name, err)
	} else {
		s.checker.count("fault: "+f.name, 1)
	}
	return true
}

// holds is how long a fault lasts, or how long it is until the next one.
func (s *soak) holds(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(s.pace)))
}

func (s *soak) randomProxy(random *rand.Rand) *proxy { return s.proxies[random.IntN(len(s.proxies))] }

// reload has a proxy read a configuration that differs, by SIGHUP or by the API.
func (s *soak) reload(_ context.Context, random *rand.Rand) error {
	p := s.randomProxy(random)
	variant := fmt.Sprintf("pace: {max_in_flight: %d}\nidentities: [{name: v%d, match: {users: [nobody]}, product_tokens: [Nobody]}]\n", 500+random.IntN(10), random.IntN(10))
	if err := p.configure(variant); err != nil {
		return err
	}
	if random.IntN(2) == 0 {
		p.signal(syscall.SIGHUP)
		return nil
	}
	status, body, err := p.ask(http.MethodPost, "/api/v1/reload")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	return err
}

// reloadInvalid has a proxy read a configuration that it must refuse.
func (s *soak) reloadInvalid(_ context.Context, random *rand.Rand) error {
	p := s.randomProxy(random)
	invalid := []string{"no_such_key: 1\n", "pace: {max_wait: soon}\n", "robots: [", "overrides: [{origin: \"*\"}]\n", "\x00"}
	if err := p.configure(invalid[random.IntN(len(invalid))]); err != nil {
		return err
	}
	if random.IntN(2) == 0 {
		p.signal(syscall.SIGHUP) // it does not say how that went, but must go on
	}
	status, body, err := p.ask(http.MethodPost, "/api/v1/reload")
	if err == nil && status < 400 {
		err = fmt.Errorf("it was accepted: status %d: %s", status, body)
	}
	return errors.Join(err, p.configure(""))
}

// killProxy kills a proxy and starts it again, with its database as the crash left it.
func (s *soak) killProxy(ctx context.Context, random *rand.Rand) error {
	return s.crash(ctx, random, s.randomProxy(random))
}

func (s *soak) crash(ctx context.Context, random *rand.Rand, p *proxy) error {
	p.kill()
	if err := checkDatabase(p.database()); err != nil {
		s.checker.fail("after %s was killed: %v", p.name, err)
	}
	pause(ctx, min(s.holds(random), time.Second))
	return p.start()
}

// restartProxy has a proxy end and start as an operator would.
func (s *soak) restartProxy(_ context.Context, random *rand.Rand) error {
	p := s.randomProxy(random)
	p.stop()
	return p.start()
}

// replaceProxy has the next process of a proxy take the place of the present one. No request may
// be lost.
func (s *soak) replaceProxy(_ context.Context, random *rand.Rand) error {
	return s.randomProxy(random).replace()
}

// killRedis takes Redis away for a while. It comes back without its data.
func (s *soak) killRedis(ctx context.Context, random *rand.Rand) error {
	s.redis.kill()
	pause(ctx, min(s.holds(random), 10*time.Second))
	return s.redis.start()
}

// fillDisk fills the disk of the proxy that keeps its policies there, and makes room again.
func (s *soak) fillDisk(ctx context.Context, random *rand.Rand) error {
	return s.onFullDisk(func() error {
		pause(ctx, min(s.holds(random), 10*time.Second))
		return nil
	})
}

// killOnFullDisk kills that proxy while its disk is full.
func (s *soak) killOnFullDisk(ctx context.Context, random *rand.Rand) error {
	return s.onFullDisk(func() error { return s.crash(ctx, random, s.proxies[0]) })
}

func (s *soak) onFullDisk(do func() error) error {
	file := filepath.Join(s.proxies[0].data(), "filler")
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, zeroes{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("filling the disk: %v", err)
	}
	return errors.Join(do(), os.Remove(file))
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// trouble changes the moods of origins and their robots.txt.
func (s *soak) trouble(ctx context.Context, random *rand.Rand) {
	var restless []*origin
	for _, o := range s.origins {
		if !o.steady {
			restless = append(restless, o)
		}
	}
	until := map[*origin]time.Time{} // when a mood ends
	for pause(ctx, 200*time.Millisecond) {
		for o, end := range until {
			if time.Now().After(end) {
				o.turn(well)
				delete(until, o)
			}
		}
		o := restless[random.IntN(len(restless))]
		if v := o.versions[random.IntN(len(o.versions))]; random.IntN(2) == 0 {
			o.publish(v)
			s.checker.count("robots.txt changed", 1)
			continue
		}
		if _, moody := until[o]; !moody && len(until) < len(restless)/4 {
			m := []mood{burst, down, wrongTLS}[random.IntN(3)]
			o.turn(m)
			until[o] = time.Now().Add(time.Duration(1000+random.IntN(9000)) * time.Millisecond)
			s.checker.count("mood: "+string(m), 1)
		}
	}
	for o := range until {
		o.turn(well)
	}
}

// describeMissing lists faults and doors that this run does without, each with the reason.
func (s *soak) describeMissing() string {
	var b strings.Builder
	for _, m := range []struct{ what, why string }{
		{"the transparent door", s.missing.redirect}, {"sealed commands", s.missing.sealed},
		{"Redis", s.missing.redis}, {"a full disk", s.missing.mount},
	} {
		if m.why != "" {
			fmt.Fprintf(&b, "without %s: %s\n", m.what, m.why)
		}
	}
	return b.String()
}
