// Package fetch fetches the robots.txt of an origin, or its tdmrep.json. A [Fetcher] makes the
// requests that a fetch takes, within the bounds of its [Options], and a [Result] is what they
// brought: a text, an answer without one, or a failure. What follows from it for the origin,
// now and later, is for package policy to say.
package fetch

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/loopback"
	"robotsproxy/internal/shortage"
	"robotsproxy/robots"
	"robotsproxy/robots/tdmrep"
)

// A Request says whose file to fetch, and in whose name. A fetch states what the operator
// wrote. What the client says of itself counts only where a site turns that away and has
// rules for the client.
type Request struct {
	Origin robots.Origin
	Path   string // of the file, of which all here holds that is said of robots.txt; "": /robots.txt

	UserAgent   string // the operator's for the identity; "": the Fetcher's own
	From        string // the operator's for the identity; "": none is sent
	ClientAgent string // the User-Agent of the client's request; "": it has none

	Client *loopback.Client // says whether the fetch may lead to this machine's loopback; nil: it may not

	// HasText says that a text of the origin is known. KnownAgent is the User-Agent that
	// brought it; "": the Fetcher's own.
	HasText    bool
	KnownAgent string
	CDN        string // the network that the origin is known to be behind; "": none

	// Sign signs each request of the fetch, right before it is sent: it adds to the header,
	// which is complete but for that. target is what this request asks for, and differs from
	// the others' where a redirect is followed. cdn is the network that the target's origin
	// is known to be behind; "": none. Fetches call Sign concurrently. nil: nothing is signed.
	Sign Signer
}

// A Signer signs one request, as [Request] says.
type Signer func(header http.Header, target robots.Target, cdn string)

// A Result is what a fetch has brought.
type Result struct {
	Meaning  Meaning // MeansUnreachable: the fetch has failed
	Status   int     // the HTTP status; 0: there was no response
	Body     []byte  // the text, if there is one
	SHA256   string  // of Body, in hex; "" if there is no text
	Lifetime time.Duration
	Cause    string // why there is no text, for people; may be empty
	Took     time.Duration

	UserAgent string // the one that brought the text; "": the Fetcher's own

	// CDN is the network that the origin itself, not one that it redirects to, has last
	// answered by; "": none that is known. If the origin has not answered, it is that of the
	// Request.
	CDN string
}

// Failed is r as a failure with err as its cause.
func (r Result) Failed(err error) Result {
	r.Meaning, r.Cause = MeansUnreachable, causeOf(err)
	return r
}

// A Fetcher fetches the robots.txt of origins. It is safe for concurrent use.
type Fetcher struct {
	Options   *Options          // not changed
	Transport http.RoundTripper // it must not follow redirects
	UserAgent string            // where the operator names none for an identity
}

// Fetch asks an origin. It returns an error if the fetch says nothing about the origin: the
// cause of ctx's end, [loopback.ErrElsewhere], or a shortage of this machine's (see
// [shortage.Is]). Every other failure is a Result.
func (f *Fetcher) Fetch(ctx context.Context, req Request) (Result, error) {
	started := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.Options.FetchTimeout)
	defer cancel()
	limited = loopback.With(limited, req.Client.WithFetch())
	v := visit{
		Fetcher: f, ctx: limited, req: req,
		cdns:        map[robots.Origin]string{req.Origin: req.CDN},
		discardTime: min(maxDiscardTime, f.Options.FetchTimeout/10),
	}
	got, err := v.askInTurn()
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if errors.Is(err, loopback.ErrElsewhere) || shortage.Is(err) {
		return Result{}, err
	}
	if err != nil {
		got = got.Failed(err)
		if limited.Err() != nil {
			got.Cause = fmt.Sprintf("timed out after %v", f.Options.FetchTimeout)
		}
	}
	got = req.keepText(got)
	got.CDN = v.cdns[req.Origin]
	got.Took = time.Since(started)
	return got, nil
}

// keepText turns an answer about the request into a failure if a text is known: such an
// answer must not replace a text.
func (r Request) keepText(got Result) Result {
	if got.Meaning == MeansBadRequest && r.HasText {
		return got.Failed(statusError(got.Status))
	}
	return got
}

// A visit is one fetch, which may take several requests.
type visit struct {
	*Fetcher
	ctx         context.Context
	req         Request
	agent       string        // the User-Agent of the requests now
	asked       []string      // the User-Agents that have asked for robots.txt
	discardTime time.Duration // left for reading bodies that nobody needs

	cdns      map[robots.Origin]string // the networks that origins are known to be behind
	missigned bool                     // the last request was signed for another network than that of its answer
}

// askInTurn asks for robots.txt with the User-Agent that the operator wrote. If the site
// turns that away and it was signed for another network than the site's, askInTurn asks so
// once more, now that the network is known: each may want another form of signature. If the
// site turns that User-Agent away all the same, it asks with the one that brought the known
// text. If the site turns that away too, it asks with the program's own and then with the
// client's, since the site may have rules for bots that it knows. Of what these two bring
// only a text counts: no client can free a site for everybody, or bar it, by its User-Agent
// or by the identity that it chooses. The two are not tried if the known text stays in force.
func (v *visit) askInTurn() (Result, error) {
	first := cmp.Or(v.req.UserAgent, v.UserAgent)
	got, err := v.ask(first)
	if turnedAway(got, err) && v.missigned {
		got, err = v.ask(first)
	}
	if known := cmp.Or(v.req.KnownAgent, v.UserAgent); v.req.HasText && turnedAway(got, err) && v.mayTry(known) {
		got, err = v.ask(known)
	}
	if !turnedAway(v.req.keepText(got), err) {
		return got, err
	}
	others := []string{v.UserAgent}
	if v.req.UserAgent == "" {
		others = append(others, v.req.ClientAgent)
	}
	for _, agent := range others {
		if !v.mayTry(agent) {
			continue
		}
		again, err := v.ask(agent)
		if shortage.Is(err) || err == nil && again.Status/100 == 2 {
			return again, err
		}
	}
	return got, err
}

// turnedAway reports whether an answer may be about the User-Agent rather than about
// robots.txt. A status to which the operator has given a meaning is not.
func turnedAway(got Result, err error) bool {
	return err == nil && (got.Meaning == MeansNoFile || got.Meaning == MeansBadRequest) && got.Status/100 == 4 &&
		got.Status != http.StatusNotFound && got.Status != http.StatusGone
}

// maxUserAgent is more octets than any bot's User-Agent needs.
const maxUserAgent = 512

// mayTry reports whether a User-Agent that others have written can be sent and has not
// been. Servers answer 400 or 431 to longer ones and to octets beyond printable ASCII.
func (v *visit) mayTry(agent string) bool {
	return agent != "" && len(agent) <= maxUserAgent && !slices.Contains(v.asked, agent) &&
		!strings.ContainsFunc(agent, func(r rune) bool { return r < ' ' || r > '~' })
}

// ask asks for robots.txt with one User-Agent.
func (v *visit) ask(agent string) (Result, error) {
	v.agent = agent
	v.asked = append(v.asked, agent)
	resp, deadEnd, err := v.follow(robots.Target{Origin: v.req.Origin, Path: cmp.Or(v.req.Path, "/robots.txt")}.String())
	if err != nil {
		return Result{}, err
	}
	defer v.discard(resp)
	got := Result{
		Meaning:  v.Options.Meaning(resp.StatusCode),
		Status:   resp.StatusCode,
		Lifetime: v.Options.lifetime(resp.Header),
		Cause:    deadEnd,
	}
	switch got.Meaning {
	case MeansFile:
		if got.Body, err = readBody(resp, v.req.Path, v.Options.MaxBytes); err != nil {
			return got, err
		}
		if v.req.Path == tdmrep.Path && len(got.Body) == 0 {
			got.Cause = "the answer is no tdmrep.json"
		}
		sum := sha256.Sum256(got.Body)
		got.SHA256 = hex.EncodeToString(sum[:])
		if v.agent != v.UserAgent {
			got.UserAgent = v.agent
		}
	case MeansNoFile:
		if got.Status >= 500 {
			fails, err := v.failsForMissing()
			if err != nil {
				return got, err
			}
			if !fails {
				return got, statusError(got.Status)
			}
			got.Cause = "the site answers any missing page so"
		}
	case MeansUnreachable:
		return got, statusError(got.Status)
	}
	return got, nil
}

// follow gets a URL and follows redirects, to other origins too (RFC 9309 2.3.1.2). It
// returns the last response. If that is a redirect that cannot be followed, deadEnd says
// why. A redirect to whose status the operator has given a meaning is not followed.
func (v *visit) follow(address string) (resp *http.Response, deadEnd string, err error) {
	seen := map[string]bool{}
	for {
		seen[address] = true
		if resp, err = v.get(address); err != nil {
			return nil, "", err
		}
		if _, given := v.Options.Statuses[resp.StatusCode]; given || resp.StatusCode/100 != 3 {
			return resp, "", nil
		}
		next, err := target(address, resp.Header.Get("Location"))
		switch {
		case err != nil:
			return resp, err.Error(), nil
		case seen[next]:
			return resp, "redirects in a loop", nil
		case len(seen) > v.Options.MaxRedirects:
			return resp, fmt.Sprintf("more than %d redirects", v.Options.MaxRedirects), nil
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
	if v.req.From != "" {
		req.Header.Set("From", v.req.From)
	}
	resp, err := v.send(req)
	if err == nil && headerSize(resp.Header) > maxHeader {
		resp.Body.Close()
		return nil, fmt.Errorf("its header has more than %d octets", maxHeader)
	}
	return resp, err
}

// send signs and sends a request, and takes note of the network by which the answer comes.
func (v *visit) send(req *http.Request) (*http.Response, error) {
	v.missigned = false
	target, err := robots.ParseTarget(req.URL.String())
	if err != nil {
		return v.Transport.RoundTrip(req) // a redirect leads to what has no single reading to be signed
	}
	req.Host = target.Origin.Authority() // as signatures have it; a Location may write it in another way
	known := v.cdns[target.Origin]
	if v.req.Sign != nil {
		v.req.Sign(req.Header, target, known)
	}
	resp, err := v.Transport.RoundTrip(req)
	if err == nil {
		told := cdnOf(resp.Header)
		v.missigned = told != known && req.Header.Get("Signature-Input") != ""
		v.cdns[target.Origin] = told
	}
	return resp, err
}

// maxHeader is more octets than the header of any robots.txt needs.
const maxHeader = 64 << 10

// headerSize returns how many octets a header has as HTTP/1.1 writes it.
func headerSize(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return n
}

// failsForMissing reports whether the origin answers 5xx for a page that cannot exist and
// 2xx for its front page. The error is a shortage of this machine's.
func (v *visit) failsForMissing() (bool, error) {
	origin := v.req.Origin.String()
	missing, err := v.statusOf(origin + "/" + strings.ToLower(rand.Text()))
	if err != nil || missing/100 != 5 {
		return false, err
	}
	front, err := v.statusOf(origin + "/")
	return front/100 == 2, err
}

// statusOf returns the status of a page, or 0 if there is no response. The error is a
// shortage of this machine's.
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

// These bound the reading of bodies that nobody needs.
const (
	maxDiscarded   = 4 << 10                // octets of one body
	maxDiscardTime = 100 * time.Millisecond // for all requests of a visit together
)

// discard closes a response. It reads a short body first, so that the connection can be
// used again. It leaves the body of a 101, whose length is 0: that is the connection itself
// and may never end.
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
