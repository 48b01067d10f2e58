// Package trial tries the signature of an identity on a real site and explains the result. A
// [Trial] looks the key up as a verifier would, sends one signed request through the same
// parts as the proxy, and says what to check next.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"robotsproxy/internal/build"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/keeper"
)

// timeout bounds all requests of a trial together.
const timeout = 2 * time.Minute

// A Trial tries the signature of one identity.
type Trial struct {
	Gate      *gate.Gate
	Keeper    *keeper.Keeper    // of the same policies as the gate's
	Transport http.RoundTripper // the proxy's own way to origins
	Out       io.Writer         // what is found is printed here, a line each

	Name     string             // of the identity
	Identity *identity.Identity // it must sign
}

// Run looks the key up at both addresses of its directory, sends one signed GET for target if
// robots.txt allows it, and prints what came back and what to do next. It returns whether the
// directory has the key and the status is below 400. An error means that there is no result.
func (t *Trial) Run(ctx context.Context, target robots.Target) (passed bool, err error) {
	ctx, cancel := context.WithTimeout(loopback.With(ctx, loopback.Here), timeout)
	defer cancel()
	t.say("identity", t.Name)
	t.say("key", t.Identity.Keys()[0].ID())
	published := t.lookUpKey(ctx, t.Identity.Agent().String()+"/")
	published = t.lookUpKey(ctx, t.Identity.Agent().String()+sign.DirectoryPath) && published

	v, err := t.Gate.Decide(ctx, gate.Ask{Target: target, Identity: t.Name})
	if err != nil {
		return false, err
	}
	if !v.Admits() {
		t.say("not sent", v.Why())
		return t.fail("choose a URL that robots.txt allows, or see robotsproxy check"), nil
	}
	cdn := ""
	if p, err := t.Keeper.Peek(ctx, target.Origin); err == nil && p != nil {
		cdn = p.CDN
	}
	req, err := t.request(ctx, target.String())
	if err != nil {
		return false, err
	}
	signature, err := t.Identity.Sign(req.Header, req.Method, target, cdn)
	switch {
	case err != nil:
		return false, err
	case signature.KeyID == "" && target.Origin.Scheme == "http":
		t.say("not sent", "the identity signs no plain http")
		return t.fail("give an https URL, or set sign.http: true"), nil
	case signature.KeyID == "":
		t.say("not sent", target.Origin.Scheme+" is never signed")
		return t.fail("give an https URL"), nil
	}
	form := signature.Form.String()
	if cdn == fetch.Cloudflare {
		form += " (its robots.txt came by Cloudflare)"
	}
	t.say("form", form)
	t.say("sent", "GET "+target.String())
	for _, field := range []string{"Signature-Agent", "Signature-Input", "Signature"} {
		t.say("", field+": "+req.Header.Get(field))
	}
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		t.say("answer", "none: "+err.Error())
		return t.fail("see whether the site answers other programs"), nil
	}
	resp.Body.Close()
	t.say("answer", resp.Status)
	return t.conclude(resp.StatusCode, published), nil
}

// say prints what is known under a heading.
func (t *Trial) say(heading, text string) {
	fmt.Fprintf(t.Out, "%-10s %s\n", heading, printable.Line(text))
}

// fail prints what to do, and returns false: the trial has not passed.
func (t *Trial) fail(advice string) bool {
	t.say("next", advice)
	return false
}

// conclude says what to do after an answer, and returns whether the trial has passed.
func (t *Trial) conclude(status int, published bool) bool {
	switch {
	case !published:
		return t.fail("publish the key first: sites can't verify the signature without the directory (directory_listen, or robotsproxy keys directory)")
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return t.fail("a signature identifies and does not admit: register the bot with the site, or with the CDN before it")
	case status >= 400:
		return t.fail("ask for a URL that answers 200; this status says nothing about the signature")
	}
	t.say("next", "the answer does not say whether the site has verified the signature; its logs do, or Cloudflare's URL in --help")
	return true
}

// request returns a GET as the identity sends it.
func (t *Trial) request(ctx context.Context, url string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	version, _ := build.Version()
	req.Header.Set("User-Agent", "robotsproxy/"+version)
	t.Identity.Rewrite(req.Header)
	return req, nil
}

// lookUpKey prints whether a directory has the key that signs, and returns it.
func (t *Trial) lookUpKey(ctx context.Context, url string) bool {
	err := t.findKey(ctx, url)
	if err != nil {
		t.say("directory", url+": "+err.Error())
		return false
	}
	t.say("directory", url+": it has the key")
	return true
}

// maxDirectory is how many octets of a directory are read.
const maxDirectory = 1 << 20

// findKey fetches a directory as a verifier does, and returns why it would not find the key
// that signs.
func (t *Trial) findKey(ctx context.Context, url string) error {
	req, err := t.request(ctx, url)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", sign.DirectoryType)
	resp, err := t.Transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s; verifiers want 200, and follow no redirect", resp.Status)
	}
	if got := resp.Header.Get("Content-Type"); got != sign.DirectoryType {
		return fmt.Errorf("its Content-Type is %q, and must be %s", got, sign.DirectoryType)
	}
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDirectory)).Decode(&set); err != nil {
		return fmt.Errorf("it is no JWK Set: %w", err)
	}
	var ids []string
	for _, key := range set.Keys {
		ids = append(ids, key.ID)
	}
	if !slices.Contains(ids, t.Identity.Keys()[0].ID()) {
		return fmt.Errorf("it lacks the key; its keys are %q", ids)
	}
	if resp.Header.Get("Signature") == "" {
		return errors.New("it is not signed")
	}
	return nil
}
