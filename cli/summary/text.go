package summary

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/clientsetup"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/sealed"
)

const (
	// maxDistrusted is how many of the distrusted hosts are named.
	maxDistrusted = 5
	// maxDestinations is how many destinations of connections are named each for itself.
	maxDestinations = 10
	// minPaced is how long, in all, requests must have waited for their turns to be worth a
	// mention.
	minPaced = time.Second
	// maxShownCauses is how many causes have a line.
	maxShownCauses = 20
	// maxSites is how many sites that failed, and how many that were paced, have a line.
	maxSites = 5
)

// Print writes a line for each cause, failure and delay, the most frequent first, then what is
// known of the connections that were not judged, and at last a line with the totals.
func (s *Summary) Print(w io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(w, "robotsproxy: "+format+"\n", args...) }
	s.printCauses(line)
	for _, f := range s.Failures[:min(len(s.Failures), maxSites)] {
		line("%7d failed   %s  %s", f.Requests, f.Origin, printable.Line(f.Error))
	}
	for _, d := range s.Delays[:min(len(s.Delays), maxSites)] {
		if waited := d.waited(); waited >= minPaced {
			line("%7d paced    %s  waited %v in all%s", d.Requests, d.Origin, waited.Round(time.Second), d.why())
		}
	}
	if s.Sealed != nil {
		s.printSealed(line)
	}
	if s.Sealable && !s.Inner {
		line("requests that bypassed the proxy were not seen; run --sealed prevents that")
	}
	switch {
	case len(s.Distrusted) > 0:
		line("the command does not seem to trust the proxy's CA: it closed the connection when it saw the certificate for %s", first(s.Distrusted, maxDistrusted))
	case s.Total == 0 && s.Sealed == nil && len(s.NoProxy.Hosts) == 0 && !s.Inner: // else another line says why
		line("the command sent no request through the proxy; robotsproxy run --help says what each client needs")
	case s.Total == 0 && s.Sealed != nil && len(s.Sealed.Refused)+len(s.Sealed.Passed)+len(s.Sealed.Denied)+len(s.Sealed.Failed) == 0:
		line("the command sent no request; a sealed command has a 127.0.0.1 of its own, and --forward PORT leads to this machine's")
	}
	line("%s", strings.Join(s.totals(), ", "))
}

// printCauses writes the most frequent causes, and how many others there are. Those of what
// browsers ask for by themselves are one line: they are not what the command was run for.
func (s *Summary) printCauses(line func(format string, args ...any)) {
	var own []Cause
	var home []string // hosts
	homeRequests := 0
	for _, c := range s.Causes {
		host, calls := clientsetup.CallsHome(c.Origin)
		if !calls {
			own = append(own, c)
			continue
		}
		homeRequests += c.Requests
		if !slices.Contains(home, host) {
			home = append(home, host)
		}
	}
	shown := own[:min(len(own), maxShownCauses)]
	for _, c := range shown {
		verb := "refused"
		if !c.Refused {
			verb = "reported"
		}
		line("%7d %s  %s  %s", c.Requests, verb, c.Origin, printable.Line(c.Why))
	}
	if more := len(own) - len(shown); more > 0 || s.OtherCauses > 0 {
		requests := s.OtherCauses
		for _, c := range own[len(shown):] {
			requests += c.Requests
		}
		line("%7d more, by %s; --log-file FILE has all", requests, atLeast(more, s.OtherCauses > 0))
	}
	if homeRequests > 0 {
		line("%7d refused that the browser sent by itself, to %s", homeRequests, first(home, maxDistrusted))
	}
}

// atLeast counts rules and sites, of which there may be others that were not counted.
func atLeast(n int, more bool) string {
	switch {
	case n == 0:
		return "other rules or of other sites"
	case more:
		return fmt.Sprintf("more than %d other rules or sites", n)
	}
	return count(n, "other rule or site")
}

func (d *Delay) waited() time.Duration { return time.Duration(d.PacedMS) * time.Millisecond }

// why says whose delay it was, to stand after the time.
func (d *Delay) why() string {
	switch d.By {
	case "":
		return ""
	case pace.ByDelay:
		return ": the configuration's delay between two requests (pace)"
	}
	return ": " + d.By.Phrase()
}

// totals are the parts of the first line.
func (s *Summary) totals() []string {
	totals := []string{count(s.Total, "request"), fmt.Sprintf("%d refused", s.Refused)}
	add := func(n int, what string) {
		if n > 0 {
			totals = append(totals, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(s.WouldRefuse-s.WouldRefuseByPreference, "let through that robots.txt disallows (mode report)")
	add(s.WouldRefuseByPreference, "let through whose use the site refuses (mode report)")
	add(s.BrokenOff, "broken off or not answered")
	if paced := time.Duration(s.PacedMS) * time.Millisecond; paced >= minPaced {
		add(s.Paced, fmt.Sprintf("paced (%v in all)", paced.Round(time.Second)))
	}
	if len(s.NoProxy.Hosts) > 0 && !s.NoProxy.Judged {
		totals = append(totals, "not judged, because of no_proxy: "+s.noProxy())
	}
	return totals
}

// noProxy names the hosts in no_proxy.
func (s *Summary) noProxy() string { return printable.Line(strings.Join(s.NoProxy.Hosts, " ")) }

// printSealed says what became of connections that were not judged, and what the command
// could not be given.
func (s *Summary) printSealed(line func(format string, args ...any)) {
	for _, c := range bounded(s.Sealed.Refused) {
		advice, verb := "", "were"
		if c.Destination != "" {
			advice = "; --allow " + c.Destination + " lets them pass"
		}
		if c.Connections == 1 {
			advice, verb = strings.Replace(advice, "them", "it", 1), "was"
		}
		line("%s to %s %s refused: only HTTP leads out%s", count(c.Connections, "connection"), cmp.Or(c.Destination, "other destinations"), verb, advice)
	}
	for _, allowed := range []struct {
		counts []sealed.Count
		format string
	}{
		{s.Sealed.Passed, "%s to %s passed without being judged, because of --allow"},
		{s.Sealed.Denied, "%s to %s refused: upstream.deny holds whatever --allow names"},
		{s.Sealed.Failed, "%s to %s failed, though --allow names it; --log-level warn says why"},
	} {
		for _, c := range bounded(allowed.counts) {
			line(allowed.format, count(c.Connections, "connection"), cmp.Or(c.Destination, "other destinations"))
		}
	}
	if len(s.NoProxy.Hosts) > 0 {
		line("hosts in no_proxy were judged like all others: %s; --allow HOST:PORT lets a destination pass", s.noProxy())
	}
	for _, warning := range s.Sealed.Warnings {
		line("%s", printable.Line(warning))
	}
}

// bounded returns the first of many counts, and at its end the others together.
func bounded(all []sealed.Count) (few []sealed.Count) {
	others := sealed.Count{}
	for _, c := range all {
		if c.Destination == "" || len(few) == maxDestinations {
			others.Connections += c.Connections
		} else {
			few = append(few, c)
		}
	}
	if others.Connections > 0 {
		few = append(few, others)
	}
	return few
}

// first names the first of many.
func first(names []string, most int) string {
	if n := len(names); n > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(names, " ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
