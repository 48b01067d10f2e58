package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/proxy/report"
	"robotsproxy/robots/store"
)

// reportFlags are the flags that only report has.
type reportFlags struct {
	about report.Question
	json  bool
	html  string // file; "-" is standard output
}

func reportCommand() *cobra.Command {
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Say what was asked, refused and paced in a period, and why",
		Long: `Say on a page what was asked, refused and paced in a period, and why: by rule and
site, with unreachable sites, preferences, overrides and their reasons, changes of
robots.txt, and the days on which no proxy ran. Days are in UTC. A running proxy
writes its counts every few seconds. The command contacts no site.

--since and --until take a day (2026-01-31) or a number of days: --since 30d is the
30 days that end with the last one. Exit code: 0 there is a report, 1 no proxy has
kept counts in the period, 2 a flag or the configuration is bad.`,
		Example: `  robotsproxy report
  robotsproxy report --since 2026-01-01 --until 2026-03-31 --html quarter.html
  robotsproxy report --since 7d --origin https://example.com --identity image-crawler
  robotsproxy report --json | jq '.refusals[] | select(.refused > 100)'`,
		Args: noArguments,
	}
	addSettings(cmd, commonSettings...)
	cmd.Flags().StringVar(&flags.about.Since, "since", report.DefaultSince, "first `DAY`, or how many days until the last one")
	cmd.Flags().StringVar(&flags.about.Until, "until", "0d", "last `DAY`, or how many days ago it was")
	cmd.Flags().StringVar(&flags.about.Origin, "origin", "", "only requests to this `ORIGIN`: scheme://host[:port], or any URL there")
	cmd.Flags().StringVar(&flags.about.Identity, "identity", "", "only requests of the identity with this `NAME`")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object, with lists that are whole")
	cmd.Flags().StringVar(&flags.html, "html", "", "write a page for browsers and printers to `FILE`; - is standard output")
	cmd.MarkFlagsMutuallyExclusive("json", "html")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		scope, err := flags.about.Scope(time.Now())
		if err != nil {
			return exit{exitUsage, fmt.Errorf("--%w", err)}
		}
		base := config.Default()
		base.Log.Level = "error"
		cfg, err := loadConfig(cmd, base, commonSettings...)
		if err != nil {
			return err
		}
		r, err := readReport(cmd.Context(), cfg, scope, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return flags.write(cmd.OutOrStdout(), r)
	})
	return cmd
}

// write writes the report in the form that the flags ask for.
func (f *reportFlags) write(stdout io.Writer, r *report.Report) error {
	switch {
	case f.json:
		return printJSON(stdout, r)
	case f.html == "-":
		return r.HTML(stdout)
	case f.html == "":
		return r.Text(stdout)
	}
	file, err := os.Create(f.html)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := errors.Join(r.HTML(file), file.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// readReport makes the report of what the store that cfg names has.
func readReport(ctx context.Context, cfg config.Config, scope report.Scope, stderr io.Writer) (*report.Report, error) {
	if cfg.Cache.Kind == store.None {
		return nil, errors.New("cache.store is none, so nothing is kept for a report; a proxy keeps counts with sqlite and redis")
	}
	e, err := engine.Open(ctx, cfg, true, stderr)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	r, err := e.Report(ctx, scope)
	if err != nil {
		return nil, err
	}
	if r.Empty() {
		return nil, fmt.Errorf("no proxy has kept counts here from %s to %s; for those that another robotsproxy keeps, name its folder with --data-dir, or its Redis with --config", scope.From, scope.Until)
	}
	return r, nil
}
