package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// status is one line about how it goes.
func (s *soak) status() string {
	line := s.checker.status()
	for _, p := range s.proxies {
		if len(p.samples) > 0 {
			last := p.samples[len(p.samples)-1]
			line += fmt.Sprintf("; %s: %.0f MiB, %.0f goroutines, %.0f descriptors", p.name, last.of["memory"]/(1<<20), last.of["goroutines"], last.of["descriptors"])
		}
	}
	return line
}

// report writes the figures of the run.
func (s *soak) report(w io.Writer) {
	c := s.checker
	fmt.Fprintf(w, "\nseed %d, %v, %d origins, %d clients, %d requests judged\n\n", s.seed, s.length, len(s.origins), s.clients, c.judged)
	for _, name := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(w, "%8d  %s\n", c.counts[name], name)
	}
	fmt.Fprintf(w, "\n%-22s  %-12s %18s %16s\n", "", "", "before clients", "after them")
	for _, p := range s.proxies {
		for _, figure := range []string{"goroutines", "descriptors"} {
			fmt.Fprintf(w, "%-22s  %-12s %18.0f %16.0f\n", p.name, figure, p.before[figure], p.after[figure])
		}
	}
	if s.length < fitsFrom {
		fmt.Fprintf(w, "\nWhether memory, goroutines, descriptors and the database stay flat is checked in runs of %v and more.\n", fitsFrom)
	} else {
		fmt.Fprintf(w, "\n%-22s  %-12s %8s %13s %13s %13s\n", "", "", "samples", "mean", "grew by", "at most")
		for _, p := range s.proxies {
			for _, b := range bounds {
				l := fit(p.samples, b.figure, s.warmUp())
				fmt.Fprintf(w, "%-22s  %-12s %8d %8.1f %-4s %8.1f %-4s %8.0f %-4s\n", p.name, b.figure, l.samples, l.mean/b.scale, b.unit, l.growth()/b.scale, b.unit, b.growth, b.unit)
			}
		}
	}
	if len(c.broken) == 0 {
		fmt.Fprintln(w, "\nnothing is broken")
		return
	}
	fmt.Fprintf(w, "\nbroken: %d\n", len(c.broken)+c.more)
	for _, text := range c.broken {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintf(w, "\nto try it again: make soak FOR=%v SEED=%d\n", s.length, s.seed)
}
