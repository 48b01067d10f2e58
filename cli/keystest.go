package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/internal/build"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
)

func keysTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [--identity NAME] URL",
		Short: "Send one signed request and say what came back",
		Long: `Look the identity's key up as a site would, at both addresses of its directory. Then send
one signed GET for URL, through the same code as the proxy and only if robots.txt allows
it, and say what came back and what to look at next. Exit code: 0 the directory has the
key and the answer is below 400, 1 otherwise, 2 the URL or the configuration is bad.

Cloudflare has a URL for this, https://crawltest.com/cdn-cgi/web-bot-auth. It answers 200
if it has verified the signature, 401 if it does not know the key, and 400 otherwise.`,
		Example: `  robotsproxy keys test --config robotsproxy.yaml https://example.com/
  robotsproxy keys test --config robotsproxy.yaml --identity image-crawler https://crawltest.com/cdn-cgi/web-bot-auth`,
		Args:                  cobra.ExactArgs(1),
		DisableFlagsInUseLine: true,
	}
	addSettings(cmd, commonSettings...)
	wanted := cmd.Flags().String("identity", "", "the identity that signs; needed if several do")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, args []string) error {
		target, err := robots.ParseTarget(args[0])
		if err == nil {
			err = target.CheckEscapes()
		}
		if err != nil {
			return exit{exitUsage, err}
		}
		base := config.Default()
		base.Log.Level = "error" // the output of this command is the answer
		cfg, err := loadConfig(cmd, base, commonSettings...)
		if err != nil {
			return err
		}
		e, err := engine.Open(cmd.Context(), cfg, true, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		defer e.Close()
		g, err := gate.New(cfg.GateSettings(), e.Keeper(), nil, e.Log(), nil)
		if err != nil {
			return err
		}
		name, id, err := chooseSigning(g.Identities(), *wanted)
		if err != nil {
			return exit{exitUsage, err}
		}
		ctx, cancel := context.WithTimeout(loopback.With(cmd.Context(), loopback.Here), signedTestTimeout)
		defer cancel()
		t := signedTest{ctx: ctx, out: cmd.OutOrStdout(), engine: e, gate: g, name: name, id: id}
		return t.run(target)
	})
	return cmd
}

// signedTestTimeout bounds all requests of "keys test" together.
const signedTestTimeout = 2 * time.Minute

// A signedTest is one run of "keys test".
type signedTest struct {
	ctx    context.Context
	out    io.Writer
	engine *engine.Engine
	gate   *gate.Gate
	name   string
	id     *identity.Identity
}

func (t *signedTest) run(target robots.Target) error {
	t.say("identity", t.name)
	t.say("key", t.id.Keys()[0].ID())
	published := t.lookUpKey(t.id.Agent().String() + "/")
	published = t.lookUpKey(t.id.Agent().String()+sign.DirectoryPath) && published

	v, err := t.gate.Decide(t.ctx, gate.Ask{Target: target, Identity: t.name})
	if err != nil {
		return err
	}
	if !v.Admits() {
		t.say("not sent", v.Why())
		return t.next("choose a URL that robots.txt allows, or see robotsproxy check")
	}
	cdn := ""
	if p, err := t.engine.Keeper().Peek(t.ctx, target.Origin); err == nil && p != nil {
		cdn = p.CDN
	}
	req, err := t.request(target.String())
	if err != nil {
		return err
	}
	signature, err := t.id.Sign(req.Header, req.Method, target, cdn)
	switch {
	case err != nil:
		return err
	case signature.KeyID == "" && target.Origin.Scheme == "http":
		t.say("not sent", "the identity signs no plain http")
		return t.next("give an https URL, or set sign.http: true")
	case signature.KeyID == "":
		t.say("not sent", target.Origin.Scheme+" is never signed")
		return t.next("give an https URL")
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
	resp, err := t.engine.Transport().RoundTrip(req)
	if err != nil {
		t.say("answer", "none: "+err.Error())
		return t.next("see whether the site answers other programs")
	}
	resp.Body.Close()
	t.say("answer", resp.Status)
	return t.conclude(resp.StatusCode, published)
}

// say prints what is known under a heading.
func (t *signedTest) say(heading, text string) {
	fmt.Fprintf(t.out, "%-10s %s\n", heading, printable.Line(text))
}

// next prints what to do. The error it returns ends the command as failed.
func (t *signedTest) next(advice string) error {
	t.say("next", advice)
	return exit{code: exitFailed}
}

// conclude says what to do after an answer.
func (t *signedTest) conclude(status int, published bool) error {
	switch {
	case !published:
		return t.next("publish the key first: sites can't verify the signature without the directory (directory_listen, or robotsproxy keys directory)")
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return t.next("a signature identifies and does not admit: register the bot with the site, or with the CDN before it")
	case status >= 400:
		return t.next("ask for a URL that answers 200; this status says nothing about the signature")
	}
	t.say("next", "the answer does not say whether the site has verified the signature; its logs do, or Cloudflare's URL in --help")
	return nil
}

// request returns a GET as the identity sends it.
func (t *signedTest) request(url string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(t.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	version, _ := build.Version()
	req.Header.Set("User-Agent", "robotsproxy/"+version)
	t.id.Rewrite(req.Header)
	return req, nil
}

// lookUpKey prints whether a directory has the key that signs, and returns it.
func (t *signedTest) lookUpKey(url string) bool {
	err := t.findKey(url)
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
func (t *signedTest) findKey(url string) error {
	req, err := t.request(url)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", sign.DirectoryType)
	resp, err := t.engine.Transport().RoundTrip(req)
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
	if !slices.Contains(ids, t.id.Keys()[0].ID()) {
		return fmt.Errorf("it lacks the key; its keys are %q", ids)
	}
	if resp.Header.Get("Signature") == "" {
		return errors.New("it is not signed")
	}
	return nil
}
