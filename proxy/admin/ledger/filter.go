package ledger

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/hostname"
	"robotsproxy/proxy/decision"
	"robotsproxy/robots/store/counts"
)

// A Filter selects decisions. A zero field selects all of them. Make one with [ParseFilter].
type Filter struct {
	identity string
	verdict  decision.Judgment
	outcome  counts.Outcome
	reason   decision.Reason
	host     hostname.Part // of host:port or, if origin is true, of scheme://host:port
	origin   bool
	agent    string // a part, in lower case
	client   netip.Prefix
	minWait  time.Duration
}

// Failed is an outcome beside those that are counted: the request was let through, and the
// origin gave no response, or only a part of one.
const Failed counts.Outcome = "failed"

var (
	verdicts = []decision.Judgment{decision.Allowed, decision.Disallowed}
	outcomes = []counts.Outcome{counts.Passed, counts.WouldRefuse, counts.Refused, counts.Late, Failed}
)

// ParseFilter returns the filter that the query of a URL names. Its error says which parameter
// is invalid, and how to write it.
func ParseFilter(query url.Values) (f Filter, err error) {
	f.identity = query.Get("identity")
	f.host = hostname.PartOf(query.Get("host"))
	f.origin = strings.Contains(query.Get("host"), "://")
	f.agent = strings.ToLower(strings.TrimSpace(query.Get("agent")))
	if f.verdict, err = oneOf(query, "verdict", verdicts); err != nil {
		return f, err
	}
	if f.outcome, err = oneOf(query, "outcome", outcomes); err != nil {
		return f, err
	}
	if f.reason, err = oneOf(query, "reason", decision.Reasons()); err != nil {
		return f, err
	}
	if text := strings.TrimSpace(query.Get("client")); text != "" {
		if f.client, err = parsePrefix(text); err != nil {
			return f, fmt.Errorf("client: %q is neither an address nor a network; write 10.1.2.3 or 10.1.0.0/16", text)
		}
	}
	if text := query.Get("min_wait"); text != "" {
		if f.minWait, err = time.ParseDuration(text); err != nil || f.minWait < 0 {
			return f, fmt.Errorf("min_wait: %q is no duration; write 500ms or 2s", text)
		}
	}
	return f, nil
}

// oneOf returns the value of a parameter, which must be one of words or missing.
func oneOf[T ~string](query url.Values, name string, words []T) (T, error) {
	word := T(query.Get(name))
	if word == "" || slices.Contains(words, word) {
		return word, nil
	}
	last := len(words) - 1
	var listed []string
	for _, w := range words[:last] {
		listed = append(listed, string(w))
	}
	return "", fmt.Errorf("%s: %q is none; write %s or %s", name, string(word), strings.Join(listed, ", "), words[last])
}

// parsePrefix reads a network, or an address as the network of it alone.
func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.Unmap().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// Selects reports whether the filter selects a decision.
func (f *Filter) Selects(d *decision.Decision) bool {
	return (f.identity == "" || f.identity == d.Identity) &&
		(f.verdict == "" || f.verdict == d.Judgment) &&
		(f.outcome == "" || f.outcome == d.Outcome() || f.outcome == Failed && failed(d)) &&
		(f.reason == "" || f.reason == d.Reason) &&
		(!f.client.IsValid() || f.client.Contains(d.Client.Unmap().WithZone(""))) &&
		d.WaitMS >= decision.Milliseconds(f.minWait) &&
		strings.Contains(strings.ToLower(d.Agent), f.agent) &&
		f.host.In(f.where(d.Origin))
}

// where returns what of an origin the filter looks at.
func (f *Filter) where(origin string) string {
	if _, host, found := strings.Cut(origin, "://"); found && !f.origin {
		return host
	}
	return origin
}

// failed reports whether a request was let through and the origin gave no whole response.
func failed(d *decision.Decision) bool { return !d.Refused && d.Error != "" }
