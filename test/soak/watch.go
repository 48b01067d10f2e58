package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// watch measures the proxies until ctx ends.
func (s *soak) watch(ctx context.Context, began time.Time, progress io.Writer) {
	every := min(max(s.length/500, 200*time.Millisecond), 10*time.Second)
	told := time.Now()
	ended := map[*proxy]bool{}
	for pause(ctx, every) {
		for _, p := range s.proxies {
			if p.hasEnded() && !ended[p] {
				ended[p] = true
				s.checker.fail("%s ended by itself; its log ends with\n%s", p.name, p.log.tail())
			}
			life := p.currentLife()
			figures, err := p.measure()
			if err != nil || isAway(life) || p.currentLife() != life {
				continue // it was away meanwhile
			}
			p.samples = append(p.samples, sample{life, time.Since(began), figures})
		}
		if time.Since(told) > max(s.length/10, 10*time.Second) {
			told = time.Now()
			fmt.Fprintf(progress, "%v: %s\n", time.Since(began).Round(time.Second), s.status())
		}
	}
}

// measureBefore notes what the proxies take before any client comes.
func (s *soak) measureBefore() (err error) {
	for _, p := range s.proxies {
		if p.before, err = p.measure(); err != nil {
			return fmt.Errorf("measuring %s: %w", p.name, err)
		}
	}
	return nil
}

// warmUp is the first part of a process's life, in which it opens connections to all origins
// and fills its caches. Lines leave it out.
func (s *soak) warmUp() time.Duration { return max(s.length/60, 30*time.Second) }

// fitsFrom is the length of the shortest runs that leave enough for a line.
const fitsFrom = 2 * time.Minute

// checkFigures wants what the proxies took to be flat.
func (s *soak) checkFigures() {
	if s.length < fitsFrom {
		return
	}
	for _, p := range s.proxies {
		for _, b := range bounds {
			if err := b.check(fit(p.samples, b.figure, s.warmUp())); err != nil {
				s.checker.fail("%s: %v", p.name, err)
			}
		}
	}
}

// spare is how much a proxy may have besides what it had before any client came, such as
// connections to Redis and to the database that it has opened since.
const spare = 4

// leftover says what a proxy has not given back; nil if it has given back all.
func leftover(before, after map[string]float64) error {
	for _, figure := range []string{"goroutines", "descriptors"} {
		if after[figure] > before[figure]+spare {
			return fmt.Errorf("%v %s, but %v before clients came", after[figure], figure, before[figure])
		}
	}
	return nil
}

// settleTimeout is how long a proxy may take to notice that everybody has left.
const settleTimeout = 2 * time.Minute

// settle waits until the proxies have given back what their clients took.
func (s *soak) settle() {
	for _, o := range s.origins {
		o.close()
	}
	for _, p := range s.proxies {
		p.replaces.Wait()
		for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
			after, err := p.measure()
			if err == nil {
				p.after = after
				err = leftover(p.before, after)
			}
			if err == nil {
				break
			}
			if time.Since(begun) > settleTimeout {
				s.checker.fail("%s has not given back what its clients took: %v; its goroutines:\n%s", p.name, err, p.dump(p.cmd, p.exited))
				break
			}
		}
	}
}
