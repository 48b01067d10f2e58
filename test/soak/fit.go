package main

import (
	"fmt"
	"time"
)

// A sample is what a proxy took at one time.
type sample struct {
	life int                // of the process
	at   time.Duration      // since the run began
	of   map[string]float64 // by name of the figure
}

// A bound is how much a figure may grow over a whole run. It leaves room for chance: for how
// many clients are there at a time, and to how many origins connections are kept. It is the
// same for short runs and for long ones, so that a longer run finds a smaller leak.
type bound struct {
	figure string
	unit   string
	scale  float64 // of the unit
	growth float64 // in the unit
}

var bounds = []bound{
	{"memory", "MiB", 1 << 20, 48},
	{"goroutines", "", 1, 200},
	{"descriptors", "", 1, 120},
	{"database", "MiB", 1 << 20, 8},
}

// A line is one fitted to samples by least squares.
type line struct {
	samples int
	mean    float64
	slope   float64       // a second
	span    time.Duration // from the first sample to the last
}

// growth is how much the line rises over the run.
func (l line) growth() float64 { return l.slope * l.span.Seconds() }

// fit fits a line to a figure. Each process begins at a level of its own, since it is new; but
// its slope is that of all. The first part of each life, in which caches fill, is left out.
func fit(samples []sample, figure string, warmUp time.Duration) line {
	lives := map[int][]sample{}
	begun := map[int]time.Duration{}
	for _, s := range samples {
		if _, known := begun[s.life]; !known {
			begun[s.life] = s.at
		}
		if s.at-begun[s.life] >= warmUp {
			lives[s.life] = append(lives[s.life], s)
		}
	}
	var l line
	var first, last time.Duration
	var sum, across, square float64
	for _, life := range lives {
		var meanAt, mean float64
		for _, s := range life {
			meanAt += s.at.Seconds() / float64(len(life))
			mean += s.of[figure] / float64(len(life))
			if l.samples == 0 || s.at < first {
				first = s.at
			}
			last = max(last, s.at)
			sum += s.of[figure]
			l.samples++
		}
		for _, s := range life {
			dx := s.at.Seconds() - meanAt
			across += dx * (s.of[figure] - mean)
			square += dx * dx
		}
	}
	if l.samples > 0 {
		l.mean = sum / float64(l.samples)
	}
	if square > 0 {
		l.slope, l.span = across/square, last-first
	}
	return l
}

// check says what is wrong with a line; nil if it is flat.
func (b bound) check(l line) error {
	if l.samples < 3 {
		return fmt.Errorf("%s: only %d samples, which is too few for a line", b.figure, l.samples)
	}
	if growth := l.growth() / b.scale; growth > b.growth {
		return fmt.Errorf("%s grew by %.1f %s over %v, more than %.0f", b.figure, growth, b.unit, l.span.Round(time.Second), b.growth)
	}
	return nil
}
