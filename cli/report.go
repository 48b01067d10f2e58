package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/cli/report"
	"robotsproxy/config"
	"robotsproxy/robots"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// reportFlags are the flags that only report has.
type reportFlags struct {
	since, until     string // a day, or a number of days before today
	origin, identity string
	json             bool
	html             string // file; "-" is standard output
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
		Args: cobra.NoArgs,
	}
	addSettings(cmd, commonSettings...)
	cmd.Flags().StringVar(&flags.since, "since", "30d", "first `DAY`, or how many days until the last one")
	cmd.Flags().StringVar(&flags.until, "until", "0d", "last `DAY`, or how many days ago it was")
	cmd.Flags().StringVar(&flags.origin, "origin", "", "only requests to this `ORIGIN`: scheme://host[:port], or any URL there")
	cmd.Flags().StringVar(&flags.identity, "identity", "", "only requests of the identity with this `NAME`")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object, with lists that are whole")
	cmd.Flags().StringVar(&flags.html, "html", "", "write a page for browsers and printers to `FILE`; - is standard output")
	cmd.MarkFlagsMutuallyExclusive("json", "html")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		scope, err := flags.scope(time.Now())
		if err != nil {
			return exit{exitUsage, err}
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

// scope is what the flags ask for.
func (f *reportFlags) scope(now time.Time) (scope report.Scope, err error) {
	if scope.Until, err = dayOf(f.until, counts.DayOf(now)); err != nil {
		return scope, fmt.Errorf("--until: %w", err)
	}
	if scope.From, err = dayOf(f.since, scope.Until+1); err != nil {
		return scope, fmt.Errorf("--since: %w", err)
	}
	switch {
	case scope.From > scope.Until:
		return scope, fmt.Errorf("--since: the period would begin on %s, after its last day, %s", scope.From, scope.Until)
	case scope.Until-scope.From >= maxReportDays:
		return scope, fmt.Errorf("--since: the period has more than %d days", maxReportDays)
	}
	if f.origin != "" {
		target, err := robots.ParseTarget(f.origin)
		if err != nil {
			return scope, fmt.Errorf("--origin: %s: %w", f.origin, err)
		}
		scope.Origin = target.Origin.String()
	}
	scope.Identity = f.identity
	return scope, nil
}

// maxReportDays is some 27 years.
const maxReportDays = 10_000

// dayOf reads a day, or a number of days before another.
func dayOf(text string, before counts.Day) (counts.Day, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return before - counts.Day(n), nil
		}
	}
	day, err := counts.ParseDay(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no day; write one, as in 2026-01-31, or a number of days, as in 30d", text)
	}
	return day, nil
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
	ran, err := e.Counts().DaysRun(ctx, scope.Period)
	if err != nil {
		return nil, err
	}
	if len(ran) == 0 {
		return nil, fmt.Errorf("no proxy has kept counts here from %s to %s; for those that another robotsproxy keeps, name its folder with --data-dir, or its Redis with --config", scope.From, scope.Until)
	}
	b := report.New(scope)
	for _, day := range ran {
		b.Ran(day)
	}
	if err := e.Counts().Counts(ctx, scope.Period, b.Add); err != nil {
		return nil, err
	}
	err = e.Changes(ctx, scope.From.Start(), (scope.Until + 1).Start(), func(c store.Change) {
		b.AddChange(report.Change{Origin: c.Origin, Time: c.At, Status: c.Status, SHA256: c.SHA256})
	})
	if err != nil {
		return nil, err
	}
	return b.Report(), nil
}
