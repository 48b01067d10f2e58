package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/internal/printable"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/tdmrep"
)

func historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [flags] ORIGIN",
		Short: "Show the distinct robots.txt versions seen for an origin",
		Long: `Show the distinct robots.txt versions seen for an origin, the newest first, with
the times between which each was seen and what it changed. ORIGIN is
scheme://host[:port], or any URL there. The URL of /.well-known/tdmrep.json shows the
versions of that file instead. The command contacts no site. Exit code: 0 there is a
history, 1 there is none, 2 ORIGIN, a flag or the configuration is bad, or the
history can't be read.`,
		Example: `  robotsproxy history https://example.com
  robotsproxy history https://example.com/.well-known/tdmrep.json
  robotsproxy history --json https://example.com | jq '.versions[].first_seen'`,
		Args: oneArgument("ORIGIN", "https://example.com"),
	}
	addSettings(cmd, commonSettings...)
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object, with the texts")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, args []string) error {
		target, err := robots.ParseTarget(args[0])
		if err != nil {
			return exit{exitUsage, fmt.Errorf("%s: %w", args[0], err)}
		}
		base := config.Default()
		base.Log.Level = "error"
		cfg, err := loadConfig(cmd, base, commonSettings...)
		if err != nil {
			return err
		}
		history, err := readHistory(cmd.Context(), cfg, target, cmd.ErrOrStderr())
		if err != nil {
			return exit{exitUsage, err} // 1 would mean that there is none
		}
		if len(history.Versions) == 0 {
			return noHistory(history.Kind, target.Origin)
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), history)
		}
		return printHistory(cmd.OutOrStdout(), history)
	})
	return cmd
}

func noHistory(kind policy.Kind, origin robots.Origin) error {
	fetching := "robotsproxy check " + origin.String() + "/ fetches it"
	if kind == policy.TDMRep {
		fetching = "it is fetched for bots that declare the purpose ai-input or ai-train"
	}
	return fmt.Errorf("%s has given no %s yet; %s; for the history that another robotsproxy keeps, name its folder with --data-dir", origin, kind, fetching)
}

func readHistory(ctx context.Context, cfg config.Config, target robots.Target, stderr io.Writer) (keeper.History, error) {
	e, err := engine.Open(ctx, cfg, true, stderr)
	if err != nil {
		return keeper.History{}, err
	}
	defer e.Close()
	files := e.Keeper().Files
	if target.Path == tdmrep.Path {
		files = e.Keeper().TDMRep
	}
	return files.History(ctx, target.Origin)
}

// printHistory prints each version as a diff against the one before it, and the oldest
// in full.
func printHistory(w io.Writer, h keeper.History) error {
	if _, err := fmt.Fprintln(w, h.Origin); err != nil {
		return err
	}
	for i, v := range h.Versions {
		content := v.Diff
		if i == len(h.Versions)-1 {
			content = v.Text
		}
		if content != "" && !strings.HasSuffix(content, "\n") {
			content += "\n"
		}
		sum := v.SHA256
		if sum == "" {
			sum = "no " + h.Kind.String()
		}
		_, err := fmt.Fprintf(w, "\nseen %s to %s  status %d  %s\n%s",
			v.FirstSeen.Format(time.RFC3339), v.LastSeen.Format(time.RFC3339), v.Status, sum, printable.Text(content))
		if err != nil {
			return err
		}
	}
	return nil
}
