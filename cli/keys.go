package cli

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/card"
	"robotsproxy/cli/engine"
	"robotsproxy/cli/trial"
	"robotsproxy/config"
	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
	"robotsproxy/proxy/sign/directory"
	"robotsproxy/robots"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "The keys that sign a bot's requests",
		Long: `The keys with which identities sign their requests (Web Bot Auth). A signature says whose
bot asks. It does not oblige a site to let the bot in.`,
		Example: `  robotsproxy keys new bot-2026b.pem               # then name it in sign.keys of an identity
  robotsproxy keys list --config robotsproxy.yaml
  robotsproxy keys directory --config robotsproxy.yaml -o public
  robotsproxy keys card --config robotsproxy.yaml
  robotsproxy keys test --config robotsproxy.yaml https://example.com/`,
		Args: isSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			cmd.Help()
			return exit{code: exitUsage}
		},
	}
	cmd.AddCommand(keysNewCommand(), keysListCommand(), keysDirectoryCommand(), keysCardCommand(), keysTestCommand())
	return cmd
}

func keysNewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new FILE",
		Short: "Make a key and print its thumbprint",
		Long: `Make an Ed25519 key, write it to FILE (PKCS #8 in PEM, mode 0600) and print its
thumbprint, by which sites find it. A file that exists is never overwritten. Whoever has
the file can sign as your bot.`,
		Example: `  robotsproxy keys new bot-2026b.pem`,
		Args:    oneArgument("FILE", "bot.pem"),
		RunE: withExitCode(func(cmd *cobra.Command, args []string) error {
			key, err := sign.CreateKey(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), key.ID())
			fmt.Fprintf(cmd.ErrOrStderr(), `Next: name %s in sign.keys of an identity. The first key signs; all are published.
In place of another key, put it last, let verifiers fetch the directory (a day will do),
and then put it first.
`, printable.Line(args[0]))
			return nil
		}),
	}
}

func keysListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured keys: whose they are, and which of them sign",
		Long: `List the keys of the configuration, one a line: the identity, the key's thumbprint,
whether it signs or is only published, the agent at which sites look it up, and the file.
Exit code: 1 if there are none.`,
		Example: `  robotsproxy keys list --config robotsproxy.yaml`,
		Args:    noArguments,
	}
	addSettings(cmd)
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		identities, err := loadIdentities(cmd)
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		signs := false
		for name, id := range identities.All() {
			for i, key := range id.Keys() {
				use := "published"
				if i == 0 {
					use, signs = "signs", true
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", printable.Line(name), key.ID(), use, id.Agent(), printable.Line(id.Signing.Keys[i]))
			}
		}
		if !signs {
			return exit{exitFailed, errNobodySigns}
		}
		return table.Flush()
	})
	return cmd
}

func keysDirectoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "directory",
		Short: "Write the key directory as files for a static host",
		Long: `Write the key directory, which verifiers fetch from the agent that identities name, as
files for a static host: the keys, for / and for the well-known path, and the header
fields that sign them, in _headers (Netlify, Cloudflare Pages) and nginx.conf (to be
included). The host must send the keys octet by octet as they are, and the header fields
with them. Run the command again after each change of keys, and before the signatures
expire. "robotsproxy serve" can serve the directory itself: see directory_listen.`,
		Example: `  robotsproxy keys directory --config robotsproxy.yaml -o public
  robotsproxy keys directory --config robotsproxy.yaml --authority bot.example.org --expires 30d`,
		Args: noArguments,
	}
	addSettings(cmd)
	authority := cmd.Flags().String("authority", "", "host, with its port unless that is 443, of the agent; needed if identities name several")
	expires := cmd.Flags().String("expires", "90d", "how long the signatures hold, more than an hour")
	output := cmd.Flags().StringP("output", "o", "key-directory", "folder for the files; made if there is none")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		hold, err := strictyaml.ParseDuration(*expires)
		if err == nil && hold <= directory.MaxAge {
			err = fmt.Errorf("%s is too short, since caches may keep the directory for %v", *expires, directory.MaxAge)
		}
		if err != nil {
			return exit{exitUsage, fmt.Errorf("--expires: %w", err)}
		}
		identities, err := loadIdentities(cmd)
		if err != nil {
			return err
		}
		agent, err := chooseAgent(directory.AgentsOf(identities.All()), *authority)
		if err != nil {
			return exit{exitUsage, err}
		}
		now := time.Now()
		files, err := agent.StaticFiles(now, hold)
		if err != nil {
			return err
		}
		for _, file := range files {
			path := filepath.Join(*output, filepath.FromSlash(file.Name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Content, 0o644)); err != nil {
				return fmt.Errorf("write the key directory: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Next: put these files on the host of %s. The signatures expire on %s: run this again before.\n",
			agent.Origin, now.Add(hold).UTC().Format(time.DateOnly))
		return nil
	})
	return cmd
}

func keysCardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "card",
		Short: "Print the Signature Agent Card of a bot",
		Long: `Print the Signature Agent Card of an identity that signs, as JSON
(draft-meunier-webbotauth-registry): who the bot is, where its keys are, which product
token it obeys, what it fetches pages for, and how its rate can be controlled. It has
what the configuration says and nothing else: add what only you know, such as trigger,
and client_id once you publish the card. rfc9309-compliance is true if the proxy refuses
all that robots.txt disallows to this bot; if not, the reasons are on standard error.`,
		Example: `  robotsproxy keys card --config robotsproxy.yaml
  robotsproxy keys card --config robotsproxy.yaml --identity image-crawler > card.json`,
		Args: noArguments,
	}
	addSettings(cmd)
	wanted := cmd.Flags().String("identity", "", "the identity; needed if several sign")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default())
		if err != nil {
			return err
		}
		identities, err := cfg.GateSettings().Identities.Load()
		if err != nil {
			return err
		}
		name, id, err := chooseSigning(identities.All(), *wanted)
		if err != nil {
			return exit{exitUsage, err}
		}
		c, departures := card.Of(cfg, name, id)
		for _, departure := range departures {
			fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: rfc9309-compliance is false: %s\n", printable.Line(departure))
		}
		text, err := c.JSON()
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	})
	return cmd
}

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
		Args:                  oneArgument("URL", "https://example.com/"),
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
		t := trial.Trial{Gate: g, Keeper: e.Keeper(), Transport: e.Transport(), Out: cmd.OutOrStdout(), Name: name, Identity: id}
		passed, err := t.Run(cmd.Context(), target)
		if err == nil && !passed {
			return exit{code: exitFailed}
		}
		return err
	})
	return cmd
}

var errNobodySigns = errors.New("no identity signs; make a key with robotsproxy keys new FILE, and name FILE in sign.keys of an identity, and its directory in sign.agent")

// loadIdentities returns the configured identities with their keys.
func loadIdentities(cmd *cobra.Command) (identity.Table, error) {
	cfg, err := loadConfig(cmd, config.Default())
	if err != nil {
		return identity.Table{}, err
	}
	return cfg.GateSettings().Identities.Load()
}

// chooseSigning returns the identity of that name, which must sign. If the name is "", it
// returns the only one that signs.
func chooseSigning(identities iter.Seq2[string, *identity.Identity], name string) (string, *identity.Identity, error) {
	var signing []string
	byName := map[string]*identity.Identity{}
	for known, id := range identities {
		byName[known] = id
		switch {
		case len(id.Keys()) > 0:
			signing = append(signing, known)
		case known == name:
			return "", nil, fmt.Errorf("the identity %s does not sign; name its keys and agent in its section sign", name)
		}
	}
	switch {
	case len(signing) == 0:
		return "", nil, errNobodySigns
	case name == "" && len(signing) > 1:
		return "", nil, fmt.Errorf("several identities sign; choose one with --identity: %s", strings.Join(signing, ", "))
	case name == "":
		name = signing[0]
	case !slices.Contains(signing, name):
		return "", nil, fmt.Errorf("no identity is called %s; these sign: %s", name, strings.Join(signing, ", "))
	}
	return name, byName[name], nil
}

// chooseAgent returns the agent with this authority; the only one if it is "".
func chooseAgent(agents []directory.Agent, authority string) (directory.Agent, error) {
	var known []string
	for _, a := range agents {
		known = append(known, a.Origin.Authority())
	}
	if authority == "" && len(agents) == 1 {
		return agents[0], nil
	}
	if authority == "" && len(agents) == 0 {
		return directory.Agent{}, errNobodySigns
	}
	if authority == "" {
		return directory.Agent{}, fmt.Errorf("the identities name several agents; choose one with --authority: %s", strings.Join(known, ", "))
	}
	origin, err := robots.ParseOrigin("https://" + authority)
	if err != nil {
		return directory.Agent{}, fmt.Errorf("--authority: %w", err)
	}
	i := slices.IndexFunc(agents, func(a directory.Agent) bool { return a.Origin == origin })
	switch {
	case i >= 0:
		return agents[i], nil
	case len(agents) == 0:
		return directory.Agent{}, errNobodySigns
	}
	return directory.Agent{}, fmt.Errorf("--authority: no identity names the agent %s; they name %s", origin, strings.Join(known, ", "))
}
