package cli

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/sign"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "The keys that sign a bot's requests",
		Long: `The keys with which identities sign their requests (Web Bot Auth). A signature says whose
bot asks. It does not oblige a site to let the bot in.`,
		Example: `  robotsproxy keys new bot-2026b.pem   # then name it in keys of an identity`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			cmd.Help()
			return exit{code: exitUsage}
		},
	}
	cmd.AddCommand(keysNewCommand())
	return cmd
}

func keysNewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new FILE",
		Short: "Make a key and print its thumbprint",
		Long: `Make an Ed25519 key, write it to FILE (PKCS #8 in PEM, mode 0600) and print its
thumbprint, by which sites find it. A file that exists is never overwritten. Whoever has
the file can sign as your bot.`,
		Example: `  robotsproxy keys new keys/bot-2026b.pem`,
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
