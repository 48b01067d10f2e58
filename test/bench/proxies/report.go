package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// goal bounds the ratio of one proxy's CPU time to another's in a case.
type goal struct {
	name     string // of the case
	of       string
	against  string
	maxRatio float64
}

var goals = []goal{
	{plainKept, ours, "goproxy", 0.70},
	{plainKept, ours, floor, 1.00},
	{plainKept, ours, "squid", 0.90},
	{plainKept, logging, ours, 1.08},
	{plainCrowd, ours, "goproxy", 0.70},
	{plainCrowd, ours, floor, 1.00},
	{plainCrowd, ours, "squid", 0.90},
	{plainNew, ours, "goproxy", 0.95},
	{plainNew, ours, "squid", 0.95},
	{secureKept, ours, "goproxy", 1.00},
	{secureKept, ours, "squid", 0.80},
	{secureKept, signing, ours, 2.00},
	{secureCrowd, ours, "goproxy", 1.00},
	{secureCrowd, ours, "squid", 0.80},
	{secureMany, ours, "goproxy", 1.00},
	{throngKept, ours, "goproxy", 1.20},
	{secureH2, ours, "goproxy", 0.80},
	{secureH2, signing, ours, 2.00},
	{crowdH2, ours, "goproxy", 0.80},
	{tunnelNew, ours, "goproxy", 1.05},
	{tunnelNew, ours, "squid", 0.75},
	{tunnelAgain, ours, "goproxy", 0.85},
	{manyOrigins, ours, "goproxy", 2.00},
	{sealedKept, byTransparent, byConnect, 1.00},
	{sealedNew, byTransparent, byConnect, 1.00},
}

const (
	maxMemory      = 80e6 // octets after the run
	maxTunnel      = 40e3 // octets an idle tunnel
	maxP99AtHalf   = 1.1  // of ReverseProxy's
	maxSealing     = 20   // milliseconds by which sealing delays a command
	microsecond    = float64(time.Microsecond)
	millisecond    = float64(time.Millisecond)
	octetsMegabyte = 1e6
)

// report writes all results in Markdown.
func (b *bench) report(out io.Writer) {
	fmt.Fprintf(out, "%s, %d cores, %s, %s. Medians of %d rounds, and medians of the ratios in each round; %d clients unless a case names more; CPU is the proxy's own.\n",
		processor(), runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly), b.scale.rounds, clients)
	for _, c := range benchCases() {
		b.reportRequests(out, c.name)
		b.reportLeft(out, leftBy+c.name)
	}
	b.reportRequests(out, halfLoad)
	for _, name := range []string{plainDown, secureDown} {
		b.reportDownloads(out, name)
	}
	b.reportMemory(out)
	b.reportIdle(out)
	b.reportGrowth(out)
	b.reportSealed(out)
	b.reportSummary(out)
	b.reportGoals(out)
	fmt.Fprintln(out)
	for _, line := range b.notes {
		fmt.Fprintln(out, "-", line)
	}
}

// median returns the median of a value of the samples; 0 if there are none.
func median[T cmp.Ordered](samples []sample, read func(sample) T) T {
	var all []T
	for _, s := range samples {
		all = append(all, read(s))
	}
	return middle(all)
}

// ratio returns the median of ratios.
func ratio(samples, others []sample, read func(sample) time.Duration) float64 {
	return middle(ratios(samples, others, read))
}

// ratios returns, for each round, the ratio of a value of samples to that of others.
// Measurements of one round are seconds apart, so the machine was in the same state.
func ratios(samples, others []sample, read func(sample) time.Duration) []float64 {
	var all []float64
	for i := range min(len(samples), len(others)) {
		all = append(all, float64(read(samples[i]))/float64(read(others[i])))
	}
	return all
}

func middle[T cmp.Ordered](all []T) T {
	if len(all) == 0 {
		return *new(T)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func cpuOf(s sample) time.Duration { return s.cpu }
func p50Of(s sample) time.Duration { return s.p50 }
func p99Of(s sample) time.Duration { return s.p99 }
func rateOf(s sample) float64      { return s.rate }

// measured returns the proxies that a case has results of, in the order of kinds.
func (b *bench) measured(name string) []string {
	var names []string
	for _, k := range b.kinds {
		if len(b.results[name][k.name]) > 0 {
			names = append(names, k.name)
		}
	}
	return names
}

// reportRequests writes the table of a case.
func (b *bench) reportRequests(out io.Writer, name string) {
	proxies := b.measured(name)
	if len(proxies) == 0 {
		return
	}
	own := b.results[name][ours]
	fmt.Fprintf(out, "\n| %s | CPU a request, µs | robotsproxy's of it | requests/s | p50, µs | p99, µs |\n|---|---:|---:|---:|---:|---:|\n", name)
	for _, proxy := range proxies {
		s := b.results[name][proxy]
		cpu := median(s, cpuOf)
		fmt.Fprintf(out, "| %s | %.1f | %.2f | %.0f | %.0f | %.0f |\n", proxy, float64(cpu)/microsecond, ratio(own, s, cpuOf),
			median(s, rateOf), float64(median(s, p50Of))/microsecond, float64(median(s, p99Of))/microsecond)
	}
}

// reportLeft writes the table of what a case leaves behind, if it was measured apart.
func (b *bench) reportLeft(out io.Writer, name string) {
	proxies := b.measured(name)
	if len(proxies) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| %s | descriptors | memory, MB | at most, MB |\n|---|---:|---:|---:|\n", name)
	for _, proxy := range proxies {
		s := b.results[name][proxy][0]
		fmt.Fprintf(out, "| %s | %d | %.0f | %.0f |\n", proxy, s.files, float64(s.memory.now)/octetsMegabyte, float64(s.memory.peak)/octetsMegabyte)
	}
}

func (b *bench) reportDownloads(out io.Writer, name string) {
	proxies := b.measured(name)
	if len(proxies) == 0 {
		return
	}
	own := b.results[name][ours]
	fmt.Fprintf(out, "\n| %s, %d MiB | CPU, ms | robotsproxy's of it | MB/s |\n|---|---:|---:|---:|\n", name, b.scale.download>>20)
	for _, proxy := range proxies {
		s := b.results[name][proxy]
		cpu := median(s, cpuOf)
		fmt.Fprintf(out, "| %s | %d | %.2f | %.0f |\n", proxy, cpu.Milliseconds(), ratio(own, s, cpuOf), median(s, rateOf)/octetsMegabyte)
	}
}

// reportMemory writes the table of the proxies' memory.
func (b *bench) reportMemory(out io.Writer) {
	fmt.Fprint(out, "\n| memory | after the run, MB | at most, MB |")
	for _, n := range b.scale.idle {
		fmt.Fprintf(out, " %s, KB each |", idleName(n))
	}
	fmt.Fprintf(out, "\n|---|---:|---:|%s\n", strings.Repeat("---:|", len(b.scale.idle)))
	for _, proxy := range b.measured(afterRun) {
		m := b.results[afterRun][proxy][0].memory
		fmt.Fprintf(out, "| %s | %.0f | %.0f |", proxy, float64(m.now)/octetsMegabyte, float64(m.peak)/octetsMegabyte)
		for _, n := range b.scale.idle {
			if s := b.results[idleName(n)][proxy]; len(s) > 0 {
				fmt.Fprintf(out, " %.0f |", s[0].held/1e3)
			} else {
				fmt.Fprint(out, " |")
			}
		}
		fmt.Fprintln(out)
	}
}

// reportIdle writes the table of idle connections of each kind.
func (b *bench) reportIdle(out io.Writer) {
	heading := fmt.Sprintf("\n| %s | number | memory, KB each | CPU to open one, µs | another client's p50, µs | without them, µs | ratio |\n|---|---:|---:|---:|---:|---:|---:|\n", idleOfEach)
	for _, c := range idleCases() {
		held, requests := b.results[c.name][b.holder.name], b.results[requestsBeside+c.name]
		if len(held) == 0 {
			continue
		}
		io.WriteString(out, heading)
		heading = ""
		with, without := requests[b.holder.name], requests[withoutIdle]
		fmt.Fprintf(out, "| %s | %d | %.0f | %.0f | %.0f | %.0f | %.2f |\n", c.name, held[0].number, held[0].held/1e3, float64(held[0].cpu)/microsecond,
			float64(median(with, p50Of))/microsecond, float64(median(without, p50Of))/microsecond, ratio(with, without, p50Of))
	}
}

// reportGrowth writes how throughput grows with the processors that robotsproxy may use. The
// load and the origin take processors too.
func (b *bench) reportGrowth(out io.Writer) {
	heading := "\n| requests/s by GOMAXPROCS |"
	for _, procs := range processors() {
		heading += fmt.Sprintf(" %d |", procs)
	}
	heading += "\n|---|" + strings.Repeat("---:|", len(processors())) + "\n"
	for _, name := range growthCases {
		one := median(b.results[name][onProcessors(1)], rateOf)
		if one == 0 {
			continue
		}
		fmt.Fprintf(out, "%s| %s |", heading, name)
		heading = ""
		for _, procs := range processors() {
			rate := median(b.results[name][onProcessors(procs)], rateOf)
			fmt.Fprintf(out, " %.0f (%.2f) |", rate, rate/one)
		}
		fmt.Fprintln(out)
	}
}

// summaryProxies are the columns of the summary.
var summaryProxies = []string{ours, "goproxy", floor, "squid", "tinyproxy", "mitmproxy"}

// reportSummary writes the table of docs/speed.md: the CPU time of a request in µs,
// and some other figures.
func (b *bench) reportSummary(out io.Writer) {
	fmt.Fprintf(out, "\n| summary | %s |\n|---|%s\n", strings.Join(summaryProxies, " | "), strings.Repeat("---:|", len(summaryProxies)))
	row := func(title, name string, value func([]sample) float64) {
		if len(b.results[name][ours]) == 0 {
			return
		}
		fmt.Fprintf(out, "| %s |", title)
		for _, proxy := range summaryProxies {
			if s := b.results[name][proxy]; len(s) > 0 {
				fmt.Fprintf(out, " %s |", thousands(value(s)))
			} else {
				fmt.Fprint(out, " |")
			}
		}
		fmt.Fprintln(out)
	}
	cpuIn := func(unit time.Duration) func([]sample) float64 {
		return func(s []sample) float64 { return float64(median(s, cpuOf)) / float64(unit) }
	}
	for _, c := range benchCases() {
		if !c.apart {
			row(c.name, c.name, cpuIn(time.Microsecond))
		}
	}
	row(fmt.Sprintf("HTTPS, %d MiB down, ms", b.scale.download>>20), secureDown, cpuIn(time.Millisecond))
	row("an idle tunnel, KB", idleName(b.scale.idle[len(b.scale.idle)-1]), func(s []sample) float64 { return s[0].held / 1e3 })
	row("memory after it all, MB", afterRun, func(s []sample) float64 { return float64(s[0].memory.now) / octetsMegabyte })
}

// thousands writes a number without decimals, with a comma before each three digits.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// reportGoals writes which goals were met, by figures as they are printed. For one that was missed it says how many rounds met
// it: some, if the machine was busy otherwise.
func (b *bench) reportGoals(out io.Writer) {
	fmt.Fprint(out, "\n| goal | is | at most | |\n|---|---:|---:|---|\n")
	line := func(what string, is, bound float64, rounds ...float64) {
		is = math.Round(100*is) / 100
		verdict := "met"
		switch {
		case is > bound && len(rounds) > 1:
			met := len(slices.DeleteFunc(slices.Clone(rounds), func(is float64) bool { return is > bound }))
			verdict = fmt.Sprintf("missed; met in %d of %d rounds", met, len(rounds))
		case is > bound:
			verdict = "missed"
		}
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %s |\n", what, is, bound, verdict)
	}
	for _, g := range goals {
		is, than := b.results[g.name][g.of], b.results[g.name][g.against]
		if len(is) > 0 && len(than) > 0 {
			line(fmt.Sprintf("%s: CPU, %s of %s", g.name, g.of, g.against), ratio(is, than, cpuOf), g.maxRatio, ratios(is, than, cpuOf)...)
		}
	}
	if is, than := b.results[halfLoad][ours], b.results[halfLoad][floor]; len(is) > 0 && len(than) > 0 {
		line("half load: p99, of "+floor, ratio(is, than, p99Of), maxP99AtHalf, ratios(is, than, p99Of)...)
	}
	if more := differences(b.results[sealedStart][startSealed], b.results[sealedStart][startPlain], p50Of); len(more) > 0 {
		line(fmt.Sprintf("%s over %s, ms", startSealed, startPlain), middle(slices.Clone(more)), maxSealing, more...)
	}
	for _, s := range b.results[afterRun][ours] {
		line("memory after the run, MB", float64(s.memory.now)/octetsMegabyte, maxMemory/octetsMegabyte)
	}
	for _, n := range b.scale.idle {
		for _, s := range b.results[idleName(n)][ours] {
			line(idleName(n)+", KB each", s.held/1e3, maxTunnel/1e3)
		}
	}
}

// processor returns the processor's name, or the architecture if the kernel does not tell it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
