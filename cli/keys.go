package cli

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/sign"
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
		Args: cobra.NoArgs,
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
		Args:    cobra.ExactArgs(1),
		RunE: withExitCode(func(cmd *cobra.Command, args []string) error {
			key, err := makeKey(args[0])
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

// makeKey makes a key and writes it to a new file.
func makeKey(path string) (*sign.Key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	key := sign.NewKey(private)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("make a key: %w, and may be a key in use; choose another name", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("make a key: %w; make the folder first", err)
	case err != nil:
		return nil, fmt.Errorf("make a key: %w", err)
	}
	_, err = file.Write(key.PEM())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, fmt.Errorf("make a key: %w", errors.Join(err, os.Remove(path)))
	}
	return key, nil
}

func keysListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured keys: whose they are, and which of them sign",
		Long: `List the keys of the configuration, one a line: the identity, the key's thumbprint,
whether it signs or is only published, the agent at which sites look it up, and the file.
Exit code: 1 if there are none.`,
		Example: `  robotsproxy keys list --config robotsproxy.yaml`,
		Args:    cobra.NoArgs,
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
