package policy

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/internal/shortage"
	"robotsproxy/robots"
	"robotsproxy/robots/store"
)

// found is what came of a fetch.
type found struct {
	answered bool // else it failed
	outcome  Outcome
	status   int // HTTP status; 0: no response
	body     []byte
	sha256   string
	lifetime time.Duration
	cause    string
	took     time.Duration

	userAgent string // that got the text; "": the fetcher's own
}

// failed is what came of a fetch that err has made a failure.
func (f found) failed(err error) found {
	f.answered, f.outcome, f.cause = false, Unreachable, cause(err)
	return f
}

// A fetcher gets robots.txt from origins.
type fetcher struct {
	opts      *Options
	transport http.RoundTripper
	userAgent string // where the operator names none for an identity
}

// fetch asks the origin, of which so much is known. The error is that of ctx, or says
// that by must not be led there or what this machine is short of: such a fetch says
// nothing about the origin.
func (f *fetcher) fetch(ctx context.Context, origin robots.Origin, by Sender, known store.Record) (found, error) {
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.opts.FetchTimeout)
	defer cancel()
	limited = loopback.With(limited, by.access.Fetching())
	visit := visit{fetcher: f, ctx: limited, from: by.From, patience: min(maxPatience, f.opts.FetchTimeout/10)}
	got, err := visit.robots(origin, by, known)
	if ctx.Err() != nil {
		return found{}, context.Cause(ctx)
	}
	if errors.Is(err, loopback.ErrElsewhere) || shortage.Is(err) {
		return found{}, err
	}
	if err != nil {
		got = got.failed(err)
		if limited.Err() != nil {
			got.cause = fmt.Sprintf("timed out after %v", f.opts.FetchTimeout)
		}
	}
	got = f.opts.weigh(got, known)
	got.took = time.Since(begun)
	return got, nil
}

// A visit is one fetch, with all the requests that it takes.
type visit struct {
	*fetcher
	ctx      context.Context
	agent    string   // the User-Agent of its requests now
	asked    []string // those that it has asked for the robots.txt with
	from     string
	patience time.Duration // left for bodies that say nothing
}

// robots asks for the robots.txt by the operator's words. A site that turns those away
// is asked by the name that got the text which is known. If that is turned away too, it
// is asked by the program's own name, then by the client's, since it may have rules for
// bots that it knows. Of what these two bring only a text counts, so that no client can
// free a site, or bar it, for everybody: not by its name, nor by the identity that it
// chooses. They are not tried where the text that is known rules on.
func (v *visit) robots(origin robots.Origin, by Sender, known store.Record) (found, error) {
	got, err := v.ask(origin, cmp.Or(by.UserAgent, v.userAgent))
	if earlier := cmp.Or(known.UserAgent, v.userAgent); known.SHA256 != "" && turnedAway(got, err) && v.isAnother(earlier) {
		got, err = v.ask(origin, earlier)
	}
	if !turnedAway(v.opts.weigh(got, known), err) {
		return got, err
	}
	others := []string{v.userAgent}
	if by.UserAgent == "" {
		others = append(others, by.ClientAgent)
	}
	for _, name := range others {
		if !v.isAnother(name) {
			continue
		}
		again, err := v.ask(origin, name)
		if shortage.Is(err) || err == nil && again.status/100 == 2 {
			return again, err
		}
	}
	return got, err
}

// turnedAway reports whether an answer may be one to who asked, rather than about the
// robots.txt. A status that the operator has given a meaning is not.
func turnedAway(got found, err error) bool {
	return err == nil && got.outcome == Unavailable && got.status/100 == 4 &&
		got.status != http.StatusNotFound && got.status != http.StatusGone
}

// maxName is more octets than any bot's User-Agent needs.
const maxName = 512

// isAnother reports whether a User-Agent, which others have written, may be asked with
// and has not been. Servers answer 400 or 431 to longer ones and to other octets.
func (v *visit) isAnother(name string) bool {
	return name != "" && len(name) <= maxName && !slices.Contains(v.asked, name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
}

// ask asks for the robots.txt by one User-Agent.
func (v *visit) ask(origin robots.Origin, agent string) (found, error) {
	v.agent = agent
	v.asked = append(v.asked, agent)
	resp, astray, err := v.follow(origin.RobotsURL())
	if err != nil {
		return found{}, err
	}
	defer v.discard(resp)
	got := found{
		answered: true,
		status:   resp.StatusCode,
		lifetime: v.opts.lifetime(resp.Header),
		cause:    astray,
	}
	got.outcome, _ = v.opts.meaning(resp.StatusCode)
	switch got.outcome {
	case Rules:
		if got.body, err = v.read(resp); err != nil {
			return got, err
		}
		sum := sha256.Sum256(got.body)
		got.sha256 = hex.EncodeToString(sum[:])
		if v.agent != v.userAgent {
			got.userAgent = v.agent
		}
	case Unavailable:
		if got.status >= 500 {
			fails, err := v.failsForMissing(origin)
			if err != nil {
				return got, err
			}
			if !fails {
				return got, statusError(got.status)
			}
			got.cause = "the site answers any missing page so"
		}
	case Unreachable:
		return got, statusError(got.status)
	}
	return got, nil
}

// follow gets a URL and goes after redirects, to other origins too: RFC 9309
// 2.3.1.2. It returns the last response and, if that is a redirect which leads
// nowhere, why. A status that the operator has given a meaning is the last.
func (v *visit) follow(address string) (resp *http.Response, astray string, err error) {
	seen := map[string]bool{}
	for {
		seen[address] = true
		if resp, err = v.get(address); err != nil {
			return nil, "", err
		}
		if _, given := v.opts.Statuses[resp.StatusCode]; given || resp.StatusCode/100 != 3 {
			return resp, "", nil
		}
		next, err := target(address, resp.Header.Get("Location"))
		switch {
		case err != nil:
			return resp, err.Error(), nil
		case seen[next]:
			return resp, "redirects in a loop", nil
		case len(seen) > v.opts.MaxRedirects:
			return resp, fmt.Sprintf("more than %d redirects", v.opts.MaxRedirects), nil
		}
		v.discard(resp)
		address = next
	}
}

// maxLocation is more than any web address that works.
const maxLocation = 8 << 10

// target resolves what a redirect names.
func target(from, location string) (string, error) {
	switch {
	case location == "":
		return "", errors.New("a redirect to nowhere")
	case len(location) > maxLocation:
		return "", fmt.Errorf("a redirect to an address of more than %d octets", maxLocation)
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", fmt.Errorf("a redirect from %q", from)
	}
	to, err := base.Parse(location)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return "", errors.New("a redirect to what is no web address")
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to.String(), nil
}

func (v *visit) get(address string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(v.ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", v.agent)
	if v.from != "" {
		req.Header.Set("From", v.from)
	}
	resp, err := v.transport.RoundTrip(req)
	if err == nil && octets(resp.Header) > maxHeader {
		resp.Body.Close()
		return nil, fmt.Errorf("its header has more than %d octets", maxHeader)
	}
	return resp, err
}

// maxHeader is more octets than the header of any robots.txt needs.
const maxHeader = 64 << 10

// octets counts those of a header as HTTP/1.1 writes it.
func octets(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return n
}

// failsForMissing reports whether the origin answers 5xx for a page that
// cannot be there, while its front page is well. The error is a shortage of this
// machine's.
func (v *visit) failsForMissing(origin robots.Origin) (bool, error) {
	missing, err := v.statusOf(origin.String() + "/" + strings.ToLower(rand.Text()))
	if err != nil || missing/100 != 5 {
		return false, err
	}
	front, err := v.statusOf(origin.String() + "/")
	return front/100 == 2, err
}

// statusOf is 0 if there is no response. The error is a shortage of this machine's.
func (v *visit) statusOf(address string) (int, error) {
	resp, _, err := v.follow(address)
	switch {
	case shortage.Is(err):
		return 0, err
	case err != nil:
		return 0, nil
	}
	v.discard(resp)
	return resp.StatusCode, nil
}

// A body that says nothing is read before it is closed if it is that short and
// comes within so long, counted over all requests of a visit.
const (
	maxDiscarded = 4 << 10
	maxPatience  = 100 * time.Millisecond
)

// discard closes a response. A short body is read first, so that its
// connection can be used again. That of a 101, which is the connection itself
// and may never end, has the length 0.
func (v *visit) discard(resp *http.Response) {
	if resp.ContentLength > 0 && resp.ContentLength <= maxDiscarded && v.patience > 0 {
		begun := time.Now()
		late := time.AfterFunc(v.patience, func() { resp.Body.Close() })
		io.Copy(io.Discard, resp.Body)
		late.Stop()
		v.patience -= time.Since(begun)
	}
	resp.Body.Close()
}

// A statusError is a response that counts as a failure.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", int(s), http.StatusText(int(s))))
}

// maxCause bounds what is kept of a cause, some of which origins can write.
const maxCause = 200

// cause says in a few words why a fetch failed, for people.
func cause(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "the name could not be looked up"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return short("certificate not trusted: " + cert.Err.Error())
	}
	for _, known := range []struct {
		err   error
		words string
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EHOSTUNREACH, "no route to the host"},
		{syscall.ENETUNREACH, "network unreachable"},
		{io.ErrUnexpectedEOF, "response cut short"},
		{io.EOF, "connection closed without a response"},
		{gzip.ErrHeader, "broken gzip"},
		{gzip.ErrChecksum, "broken gzip"},
	} {
		if errors.Is(err, known.err) {
			return known.words
		}
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timed out"
	}
	return short(err.Error())
}

func short(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxCause)], "")
}
