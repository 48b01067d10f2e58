package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// checkFlags are the flags that only check has.
type checkFlags struct {
	agents   []string // product tokens, or whole User-Agents
	identity string   // by its name; "" is the default
	purposes []string
	content  string // the use of content
	use      preference.Use
	robots   string // file; "-" is standard input
	expect   string // file with the verdicts that are expected; "-" is standard input
	json     bool
	fresh    bool
}

func checkCommand() *cobra.Command {
	var flags checkFlags
	cmd := &cobra.Command{
		Use:   "check [flags] URL...",
		Short: "Say for each URL whether it may be fetched and why",
		Long: `Say for each URL whether it may be fetched and why, by the live robots.txt or
by a file. A URL without a scheme, as in example.com/a, is taken for https; - stands
for URLs on standard input, one a line. With --purpose, or an identity that declares
purposes, check also says whether the site refuses one of them in its robots.txt or
tdmrep.json.

With --expect, check tests a robots.txt: FILE has a row AGENT URL VERDICT for each
verdict that is expected, allowed or disallowed. check prints the rows whose verdict is
another and, with --robots, warns of lines of the robots.txt that probably don't do what
they should.

Exit code: 0 every URL is allowed, or every verdict is as expected, 1 some URL is
disallowed or a purpose refused (in preferences.mode report too), or some verdict is
not as expected, 2 a URL, file or flag is bad.`,
		Example: `  robotsproxy check https://example.com/private/a
  robotsproxy check --agent ExampleBot-Image --agent ExampleBot https://example.com/a.png
  robotsproxy check --agent "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://example.org)" https://example.com/a
  robotsproxy check --config robotsproxy.yaml --identity image-crawler https://example.com/a.png
  robotsproxy check --agent ExampleBot --purpose search --purpose ai-train https://example.com/a
  robotsproxy check --robots new-robots.txt --agent ExampleBot https://example.com/a
  curl -s https://example.com/robots.txt | robotsproxy check --robots - https://example.com/a
  robotsproxy check --robots robots.txt --expect verdicts.txt    # in CI
  robotsproxy check --json - < urls.txt | jq -r 'select(.verdict == "disallowed").url'
  robotsproxy check --json --fresh https://example.com/ | jq .expires_at`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case flags.expect == "" && len(args) == 0:
				return errors.New("there is no URL to check; name one, or - to read them from standard input")
			case flags.expect != "" && len(args) > 0:
				return fmt.Errorf("--expect %s has the URLs; leave out %s", flags.expect, args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addSettings(cmd, commonSettings...)
	cmd.Flags().StringArrayVar(&flags.agents, "agent", nil, "product token of the bot, or its User-Agent; repeat for one bot's tokens, most specific first")
	cmd.Flags().StringVar(&flags.identity, "identity", "", "judge as this identity of the configuration, by its product tokens, mode and purposes")
	cmd.Flags().StringArrayVar(&flags.purposes, "purpose", nil, "what the bot does with pages: search, ai-input or ai-train; may repeat; replaces the identity's")
	cmd.Flags().StringVar(&flags.content, "content-use", "", "with --purpose, how much of a page is kept: immediate, reference or full")
	cmd.Flags().StringVar(&flags.robots, "robots", "", "judge by this robots.txt instead of the live one; - is standard input")
	cmd.Flags().StringVar(&flags.expect, "expect", "", "compare with the verdicts in `FILE`, a table of agent, URL and verdict; - is standard input")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().BoolVar(&flags.fresh, "fresh", false, "fetch robots.txt and tdmrep.json even if the stored ones are still fresh")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, urls []string) error {
		if flags.robots != "" && flags.fresh {
			return exit{exitUsage, errors.New("--fresh fetches and --robots does not; leave one out")}
		}
		if flags.robots == "-" && (flags.expect == "-" || slices.Contains(urls, "-")) {
			return exit{exitUsage, errors.New("standard input can't be the robots.txt and the table or the URLs; name a file for one of them")}
		}
		if flags.expect != "" && len(flags.agents) > 0 {
			return exit{exitUsage, fmt.Errorf("--expect %s has the agents; leave out --agent", flags.expect)}
		}
		if slices.Contains(flags.agents, "") {
			return exit{exitUsage, errors.New("--agent is empty; name the bot, or leave it out")}
		}
		if flags.identity == "" && cmd.Flags().Changed("identity") {
			return exit{exitUsage, errors.New("--identity is empty; name one of the configuration, or leave it out")}
		}
		var err error
		if flags.use, err = preference.ParseUse(flags.purposes, flags.content); err != nil {
			return exit{exitUsage, fmt.Errorf("--purpose, --content-use: %w", err)}
		}
		base := config.Default()
		base.Log.Level = "error" // the output of this command is the verdicts
		cfg, err := loadConfig(cmd, base, commonSettings...)
		if err != nil {
			return err
		}
		if flags.expect != "" {
			return expect(cmd, cfg, flags)
		}
		return check(cmd, cfg, flags, urls)
	})
	return cmd
}

// check prints a verdict for each URL.
func check(cmd *cobra.Command, cfg config.Config, flags checkFlags, urls []string) error {
	urls, err := withStandardInput(urls, cmd.InOrStdin())
	if err != nil {
		return exit{exitUsage, err}
	}
	targets, code := parseTargets(cmd, flags, urls)
	if len(targets) == 0 {
		return exit{code: code}
	}
	g, closeGate, err := openCheckGate(cmd, cfg, flags)
	if err != nil {
		return exit{exitUsage, err} // 1 would pass for a verdict
	}
	defer closeGate()
	tokens := productTokens(cmd, flags.agents)
	ctx := loopback.With(cmd.Context(), loopback.Here)
	for _, target := range targets {
		v, err := g.Decide(ctx, gate.Ask{Target: target, Identity: flags.identity, Agents: tokens, Use: flags.use})
		if err != nil {
			return exit{exitUsage, err}
		}
		if err := printVerdict(cmd.OutOrStdout(), v, flags); err != nil {
			return exit{exitUsage, err}
		}
		if refuses(v) {
			code = max(code, exitFailed)
		}
	}
	if code != exitDone {
		return exit{code: code}
	}
	return nil
}

// refuses reports whether the bot is not to have the URL, even if a mode report lets it through.
func refuses(v gate.Verdict) bool { return v.Judgment != decision.Allowed || v.WouldRefuse }

// withStandardInput puts the lines of stdin in the place of each "-" but skips empty ones.
func withStandardInput(urls []string, stdin io.Reader) (all []string, err error) {
	for _, url := range urls {
		if url != "-" {
			all = append(all, url)
			continue
		}
		lines := bufio.NewScanner(stdin)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				all = append(all, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("reading URLs from standard input: %w", err)
		}
	}
	return all, nil
}

// parseURL parses a URL. A host without a scheme, perhaps with a port and a path, is taken for
// one of https.
func parseURL(url string) (robots.Target, error) {
	target, err := robots.ParseTarget(url)
	if err == nil || strings.Contains(url, "://") {
		return target, err
	}
	host := url
	if end := strings.IndexAny(url, "/?#"); end >= 0 {
		host = url[:end]
	}
	if host != "localhost" && !strings.ContainsAny(host, ".:") || strings.Contains(host, "@") {
		return target, err
	}
	if secure, secureErr := robots.ParseTarget("https://" + url); secureErr == nil {
		return secure, nil
	}
	return target, err
}

// parseTargets parses the URLs. It prints an error for each bad one; then code is exitUsage.
func parseTargets(cmd *cobra.Command, flags checkFlags, urls []string) (targets []robots.Target, code int) {
	code = exitDone
	for _, url := range urls {
		target, err := parseURL(url)
		if err == nil && flags.robots == "" { // a file can judge any path
			err = target.CheckEscapes()
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: %s: %s\n", printable.Line(url), printable.Line(err.Error()))
			code = exitUsage
			continue
		}
		targets = append(targets, target)
	}
	return targets, code
}

// productTokens returns the product token of each agent, which is a token or a whole
// User-Agent. It prints which token it takes from a User-Agent.
func productTokens(cmd *cobra.Command, agents []string) (tokens []string) {
	for _, agent := range agents {
		token := identity.TokenOf(agent)
		if token != agent {
			fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: --agent %q is a User-Agent; its product token is %s\n", agent, printable.Line(token))
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// openCheckGate makes a gate like the proxy's, over the file that the flags name or over
// the live robots.txt files. Callers must call closeGate.
func openCheckGate(cmd *cobra.Command, cfg config.Config, flags checkFlags) (g *gate.Gate, closeGate func() error, err error) {
	if flags.robots != "" {
		g, err = fileGate(cmd, cfg, flags)
		return g, func() error { return nil }, err
	}
	e, err := engine.Open(cmd.Context(), cfg, true, cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	if g, err = gate.New(cfg.GateSettings(), livePolicies(e.Keeper().Files, flags.fresh), e.Observer(cfg), e.Log(), nil); err != nil {
		e.Close()
		return nil, nil, err
	}
	g.TDMRep = livePolicies(e.Keeper().TDMRep, flags.fresh)
	return g, e.Close, nil
}

// fileGate makes a gate that judges every origin by the robots.txt in the file that the flags
// name. If verdicts are expected, it prints what is odd in the file.
func fileGate(cmd *cobra.Command, cfg config.Config, flags checkFlags) (*gate.Gate, error) {
	body, err := readRobots(flags.robots, cmd.InOrStdin(), cfg.Robots.MaxBytes)
	if err != nil {
		return nil, err
	}
	if flags.expect != "" {
		lint(cmd.ErrOrStderr(), flags.robots, body)
	}
	given := &policy.Policy{Outcome: policy.Rules, File: robots.Parse(body)}
	settings := cfg.GateSettings()
	settings.Overrides = nil // they would replace the file
	return gate.New(settings, gate.OnePolicy(given), nil, zerolog.Nop(), nil)
}

// livePolicies returns the keeper's policies. With fresh, it fetches each origin's
// robots.txt once, whatever the keeper knows. The proxy fetches in the background when a
// fetch is due. check waits for that fetch, because the command would end before it.
func livePolicies(files keeper.Files, fresh bool) gate.PoliciesFunc {
	fetched := map[robots.Origin]bool{}
	return func(ctx context.Context, origin robots.Origin, by keeper.Sender) (*policy.Policy, error) {
		if !fresh || fetched[origin] {
			p, err := files.Policy(ctx, origin, by)
			now := time.Now()
			if err != nil || fetched[origin] || now.Before(p.ExpiresAt) || now.Before(p.NextTry) {
				return p, err
			}
		}
		fetched[origin] = true
		return files.Fresh(ctx, origin, by)
	}
}

func printVerdict(w io.Writer, v gate.Verdict, flags checkFlags) error {
	if flags.json {
		return printJSON(w, v)
	}
	who, why := verdictText(v, flags)
	_, err := fmt.Fprintf(w, "%-10s %s\n           for %s: %s\n", v.Judgment, v.URL, who, why)
	if err == nil && v.CrawlDelay != nil && *v.CrawlDelay > 0 {
		_, err = fmt.Fprintf(w, "           delay between requests: %vs\n", *v.CrawlDelay)
	}
	return err
}

// verdictText says for whom a verdict is, and why it is so.
func verdictText(v gate.Verdict, flags checkFlags) (who, why string) {
	if flags.robots != "" {
		v.RobotsURL = flags.robots
		if flags.robots == "-" {
			v.RobotsURL = "standard input"
		}
		v.PreferenceURL = v.RobotsURL // no other file is asked for
	}
	who, why = printable.Line(v.Agent), printable.Line(v.Why())
	if v.Identity != identity.DefaultName {
		who += ", identity " + printable.Line(v.Identity)
	}
	if v.Judgment != decision.Allowed && v.Admits() {
		why += "; in mode report it is let through"
	}
	if v.WouldRefuse {
		why += "; in preferences.mode enforce, refused by " + printable.Line(v.WhyPreference())
	}
	if held := v.HeldWhy(); held != "" {
		why += "; held " + held
	}
	return who, why
}

// printJSON prints v as one line of JSON that is safe to show on a terminal.
func printJSON(w io.Writer, v any) error {
	text, err := printable.Marshal(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// readRobots reads a robots.txt from the named file or, if name is -, from stdin. It reads
// at most maxBytes, as of a live one.
func readRobots(name string, stdin io.Reader, maxBytes int64) ([]byte, error) {
	from, err := openInput(name, stdin)
	if err != nil {
		return nil, fmt.Errorf("reading robots.txt: %w", err)
	}
	defer from.Close()
	body, err := fetch.Read(from, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("reading robots.txt: %w", err)
	}
	return body, nil
}

// openInput opens the named file or, if name is -, stdin.
func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}
