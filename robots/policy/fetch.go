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

// A result is what a fetch has brought.
type result struct {
	answered bool // else it failed
	outcome  Outcome
	status   int // HTTP status; 0: no response
	body     []byte
	sha256   string
	lifetime time.Duration
	cause    string
	took     time.Duration

	userAgent string // that brought the text; "": the fetcher's own
}

// asUnreachable is r as a failure with err for its cause.
func (r result) asUnreachable(err error) result {
	r.answered, r.outcome, r.cause = false, Unreachable, causeOf(err)
	return r
}

// A fetcher fetches the robots.txt of origins.
type fetcher struct {
	opts      *Options
	transport http.RoundTripper
	userAgent string // where the operator names none for an identity
}

// fetch asks the origin, of which known is the record. A fetch that says nothing about
// the origin is an error: that of ctx, that by must not be led there, or what this
// machine is short of. Every other failure is a result.
func (f *fetcher) fetch(ctx context.Context, origin robots.Origin, by Sender, known store.Record) (result, error) {
	started := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.opts.FetchTimeout)
	defer cancel()
	limited = loopback.With(limited, by.access.WithFetch())
	v := visit{fetcher: f, ctx: limited, from: by.From, discardTime: min(maxDiscardTime, f.opts.FetchTimeout/10)}
	got, err := v.robots(origin, by, known)
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	if errors.Is(err, loopback.ErrElsewhere) || shortage.Is(err) {
		return result{}, err
	}
	if err != nil {
		got = got.asUnreachable(err)
		if limited.Err() != nil {
			got.cause = fmt.Sprintf("timed out after %v", f.opts.FetchTimeout)
		}
	}
	got = f.opts.keepText(got, known)
	got.took = time.Since(started)
	return got, nil
}

// A visit is one fetch, which may take several requests.
type visit struct {
	*fetcher
	ctx         context.Context
	from        string
	agent       string        // the User-Agent of the requests now
	asked       []string      // the User-Agents that have asked for robots.txt
	discardTime time.Duration // left for reading bodies that nobody needs
}

// robots asks for robots.txt with the User-Agent that the operator wrote. If the site
// turns that away, it is asked with the one that brought the known text. If it turns that
// away too, it is asked with the program's own and then with the client's, since it may
// have rules for bots that it knows. Of what these two bring only a text counts: no client
// can free a site for everybody, or bar it, by its User-Agent or by the identity that it
// chooses. They are not tried where the known text stays in force.
func (v *visit) robots(origin robots.Origin, by Sender, known store.Record) (result, error) {
	got, err := v.ask(origin, cmp.Or(by.UserAgent, v.userAgent))
	if earlier := cmp.Or(known.UserAgent, v.userAgent); known.SHA256 != "" && turnedAway(got, err) && v.isAnother(earlier) {
		got, err = v.ask(origin, earlier)
	}
	if !turnedAway(v.opts.keepText(got, known), err) {
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

// turnedAway reports whether an answer may be about the User-Agent rather than about
// robots.txt. A status to which the operator has given a meaning is not.
func turnedAway(got result, err error) bool {
	return err == nil && got.outcome == Unavailable && got.status/100 == 4 &&
		got.status != http.StatusNotFound && got.status != http.StatusGone
}

// maxUserAgent is more octets than any bot's User-Agent needs.
const maxUserAgent = 512

// isAnother reports whether a User-Agent that others have written can be tried and has
// not been. Servers answer 400 or 431 to longer ones and to octets beyond printable ASCII.
func (v *visit) isAnother(name string) bool {
	return name != "" && len(name) <= maxUserAgent && !slices.Contains(v.asked, name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
}

// ask asks for robots.txt with one User-Agent.
func (v *visit) ask(origin robots.Origin, agent string) (result, error) {
	v.agent = agent
	v.asked = append(v.asked, agent)
	resp, deadEnd, err := v.follow(origin.RobotsURL())
	if err != nil {
		return result{}, err
	}
	defer v.discard(resp)
	got := result{
		answered: true,
		status:   resp.StatusCode,
		lifetime: v.opts.lifetime(resp.Header),
		cause:    deadEnd,
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

// follow gets a URL and follows redirects, also to other origins: RFC 9309 2.3.1.2. It
// returns the last response and, if that is a redirect that cannot be followed, why. A
// status to which the operator has given a meaning is not followed.
func (v *visit) follow(address string) (resp *http.Response, deadEnd string, err error) {
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

// maxLocation is more octets than any working web address has.
const maxLocation = 8 << 10

// target resolves the Location of a redirect.
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
	if err == nil && headerSize(resp.Header) > maxHeader {
		resp.Body.Close()
		return nil, fmt.Errorf("its header has more than %d octets", maxHeader)
	}
	return resp, err
}

// maxHeader is more octets than the header of any robots.txt needs.
const maxHeader = 64 << 10

// headerSize is how many octets a header has as HTTP/1.1 writes it.
func headerSize(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return n
}

// failsForMissing reports whether the origin answers 5xx for a page that cannot exist,
// and 2xx for its front page. The error is a shortage of this machine's.
func (v *visit) failsForMissing(origin robots.Origin) (bool, error) {
	missing, err := v.statusOf(origin.String() + "/" + strings.ToLower(rand.Text()))
	if err != nil || missing/100 != 5 {
		return false, err
	}
	front, err := v.statusOf(origin.String() + "/")
	return front/100 == 2, err
}

// statusOf is the status of a page; 0 if there is no response. The error is a shortage of
// this machine's.
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

// Bodies that nobody needs are read up to that many octets each, and for that long over
// all requests of a visit.
const (
	maxDiscarded   = 4 << 10
	maxDiscardTime = 100 * time.Millisecond
)

// discard closes a response. It reads a short body first, so that the connection can be
// used again. The body of a 101 is the connection itself and may never end; its length
// is 0.
func (v *visit) discard(resp *http.Response) {
	if resp.ContentLength > 0 && resp.ContentLength <= maxDiscarded && v.discardTime > 0 {
		started := time.Now()
		expired := time.AfterFunc(v.discardTime, func() { resp.Body.Close() })
		io.Copy(io.Discard, resp.Body)
		expired.Stop()
		v.discardTime -= time.Since(started)
	}
	resp.Body.Close()
}

// A statusError is a response that counts as a failure.
type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", int(s), http.StatusText(int(s))))
}

// maxCause bounds a cause in octets, since an origin can write a part of it.
const maxCause = 200

// causeOf says in a few words why a fetch failed, for people.
func causeOf(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "the name could not be looked up"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return cutCause("certificate not trusted: " + cert.Err.Error())
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
	return cutCause(err.Error())
}

func cutCause(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxCause)], "")
}
