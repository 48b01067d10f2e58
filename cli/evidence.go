package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/cli/evidence"
	"robotsproxy/cli/evidence/sealedzip"
	"robotsproxy/config"
	"robotsproxy/internal/build"
	"robotsproxy/internal/printable"
	"robotsproxy/internal/wholefile"
	"robotsproxy/robots"
	"robotsproxy/robots/keeper"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// evidenceFlags are the flags that only evidence has.
type evidenceFlags struct {
	from, to string // days, as counts.ParseFrom and counts.ParseUntil read them
	origins  []string
	logs     []string // files; "-" is standard input
	output   string   // file
}

func evidenceCommand() *cobra.Command {
	var flags evidenceFlags
	cmd := &cobra.Command{
		Use:   "evidence --from DAY --to DAY -o FILE [flags]",
		Short: "Archive what was decided in a period, and by which robots.txt",
		Long: `Write a zip archive for people who must be shown how a bot was led in a period: the
decisions (JSON Lines), every version of robots.txt and tdmrep.json that may have ruled
then (WARC/1.1), SHA-256 sums of all files, and a README.txt that says what each is and
how to check it with sha256sum and openssl alone. If identities sign their requests, the
first key of each signs the sums. The same inputs make the same archive. The command
contacts no site.

The decisions come from the logs that --log names, in JSON and in the order given: every
line that is a decision of the period. Logs compressed with gzip are read too. Without
--log, the archive has the counts that proxies keep for reports.

--from and --to take a day in UTC (2026-01-31) or a number of days: --from 30d is the 30
days that end with the last one. FILE is replaced as a whole, or stays as it is. Exit
code: 0 there is an archive, 1 nothing is kept of the period or the archive could not be
made, 2 a flag or the configuration is bad.`,
		Example: `  robotsproxy evidence --from 2026-01-01 --to 2026-03-31 -o quarter.zip
  robotsproxy evidence --from 7d --to 0d --origin https://example.com -o example.zip
  robotsproxy evidence --from 2026-01-01 --to 2026-01-31 --log proxy.log.1.gz --log proxy.log -o january.zip
  zstdcat proxy.log.zst | robotsproxy evidence --from 7d --to 0d --log - -o week.zip
  robotsproxy evidence verify quarter.zip`,
		Args: noArguments,
	}
	addSettings(cmd, commonSettings...)
	cmd.Flags().StringVar(&flags.from, "from", "", "first `DAY`, or how many days until the last one")
	cmd.Flags().StringVar(&flags.to, "to", "", "last `DAY`, or how many days ago it was")
	cmd.Flags().StringArrayVar(&flags.origins, "origin", nil, "only requests to this `ORIGIN`: scheme://host[:port], or any URL there; may be repeated")
	cmd.Flags().StringArrayVar(&flags.logs, "log", nil, "take the decisions from this log `FILE`; - is standard input; may be repeated")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "`FILE` to write, a zip archive")
	for _, name := range []string{"from", "to", "output"} {
		cmd.MarkFlagRequired(name)
	}
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		scope, err := flags.scope(time.Now())
		if err == nil {
			err = flags.checkFiles()
		}
		if err != nil {
			return exit{exitUsage, err}
		}
		base := config.Default()
		base.Log.Level = "error"
		cfg, err := loadConfig(cmd, base, commonSettings...)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		found, err := flags.write(ctx, cfg, scope, cmd.InOrStdin(), cmd.ErrOrStderr())
		if errors.Is(err, evidence.ErrNothing) {
			return flags.nothing(scope)
		}
		if err != nil {
			return fmt.Errorf("making the archive: %w", err)
		}
		printFound(cmd.ErrOrStderr(), found)
		return nil
	})
	cmd.AddCommand(evidenceVerifyCommand())
	return cmd
}

// scope is what the flags ask for.
func (f *evidenceFlags) scope(now time.Time) (scope evidence.Scope, err error) {
	if scope.Until, err = counts.ParseUntil(f.to, counts.DayOf(now)); err != nil {
		return scope, fmt.Errorf("--to: %w", err)
	}
	if scope.From, err = counts.ParseFrom(f.from, scope.Until); err != nil {
		return scope, fmt.Errorf("--from: %w", err)
	}
	for _, url := range f.origins {
		target, err := robots.ParseTarget(url)
		if err != nil {
			return scope, fmt.Errorf("--origin: %s: %w", url, err)
		}
		scope.Origins = append(scope.Origins, target.Origin.String())
	}
	slices.Sort(scope.Origins)
	scope.Origins = slices.Compact(scope.Origins)
	return scope, nil
}

// checkFiles returns an error if the archive could not be written, or would have the decisions
// of a log twice.
func (f *evidenceFlags) checkFiles() error {
	if f.output == "-" {
		return errors.New("--output: an archive is written to a file; name one, or ./- for one of that name")
	}
	if err := wholefile.Check(f.output); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	for i, name := range f.logs {
		if slices.Contains(f.logs[:i], name) {
			return fmt.Errorf("--log: %s is named twice", name)
		}
	}
	return nil
}

// nothing is the error where nothing is kept of the period.
func (f *evidenceFlags) nothing(scope evidence.Scope) error {
	if len(f.logs) > 0 {
		return fmt.Errorf("no line of the logs is a decision from %s to %s; lines must be JSON, as log.format: json writes them, and log.decisions must not be none", scope.From, scope.Until)
	}
	return fmt.Errorf("no proxy has kept counts here from %s to %s; name logs with --log, or what another robotsproxy keeps: its folder with --data-dir, or its Redis with --config", scope.From, scope.Until)
}

// write makes the archive.
func (f *evidenceFlags) write(ctx context.Context, cfg config.Config, scope evidence.Scope, stdin io.Reader, stderr io.Writer) (found evidence.Found, err error) {
	if cfg.Cache.Kind == store.None && len(f.logs) == 0 {
		return found, errors.New("cache.store is none, so no counts are kept; name logs with --log")
	}
	signers, err := signersOf(cfg)
	if err != nil {
		return found, err
	}
	e, err := engine.Open(ctx, cfg, true, stderr)
	if err != nil {
		return found, err
	}
	defer e.Close()
	var files []*wholefile.File
	defer func() {
		for _, file := range files {
			file.Discard()
		}
	}()
	create := func() (*wholefile.File, error) {
		file, err := wholefile.Create(f.output)
		if err == nil {
			files = append(files, file)
		}
		return file, err
	}
	output, err := create()
	if err != nil {
		return found, err
	}
	version, _ := build.Version()
	archive := evidence.Archive{
		Scope:    scope,
		Source:   evidence.Counts{Store: e.Counts()},
		Files:    filesOf(e),
		Signers:  signers,
		Software: "robotsproxy/" + version,
		Scratch:  func() (io.ReadWriteSeeker, error) { return create() },
	}
	if len(f.logs) > 0 {
		archive.Source = evidence.Log{Names: f.logs, Open: func(name string) (io.ReadCloser, error) {
			if name == "-" {
				return io.NopCloser(stdin), nil
			}
			return os.Open(name)
		}}
	}
	if found, err = archive.Write(ctx, output); err != nil {
		return found, err
	}
	return found, output.Commit()
}

// signersOf returns the first key of each identity that signs.
func signersOf(cfg config.Config) (signers []evidence.Signer, err error) {
	identities, err := cfg.GateSettings().Identities.Load()
	if err != nil {
		return nil, err
	}
	for name, id := range identities.All() {
		if keys := id.Keys(); len(keys) > 0 {
			signers = append(signers, evidence.Signer{Identity: printable.Line(name), Agent: id.Agent().String(), Key: keys[0]})
		}
	}
	return signers, nil
}

// filesOf returns what the store has of an origin's files, with the media types of RFC 9309
// section 2.3 and of the TDM Reservation Protocol.
func filesOf(e *engine.Engine) func(context.Context, string) ([]evidence.File, error) {
	return func(ctx context.Context, name string) ([]evidence.File, error) {
		origin, err := robots.ParseOrigin(name)
		if err != nil {
			return nil, err
		}
		robotsTxt, tdmrep := e.Keeper().Files, e.Keeper().TDMRep
		rules, err := robotsTxt.Versions(ctx, origin)
		if err != nil {
			return nil, err
		}
		reservations, err := tdmrep.Versions(ctx, origin)
		textOf := func(files keeper.Files) func(context.Context, string) ([]byte, bool, error) {
			return func(ctx context.Context, sum string) ([]byte, bool, error) { return files.Text(ctx, origin, sum) }
		}
		return []evidence.File{
			{URL: robotsTxt.URL(origin), MediaType: "text/plain", Decides: true, Versions: rules, Text: textOf(robotsTxt)},
			{URL: tdmrep.URL(origin), MediaType: "application/json", Versions: reservations, Text: textOf(tdmrep)},
		}, err
	}
}

// maxMissing is how many missing texts are named on standard error. The archive names all.
const maxMissing = 10

// printFound says what is not in the archive.
func printFound(stderr io.Writer, found evidence.Found) {
	line := func(format string, args ...any) {
		fmt.Fprintf(stderr, "robotsproxy: %s\n", fmt.Sprintf(format, args...))
	}
	if found.Unreadable > 0 {
		line("%d lines of the logs are cut or damaged; they are left out", found.Unreadable)
	}
	if found.Unassigned > 0 {
		line("%d requests are left out, since it was not kept to which origin they went", found.Unassigned)
	}
	for i, m := range found.Missing {
		if i == maxMissing {
			line("%d more texts are missing; robots.jsonl in the archive names all", len(found.Missing)-i)
			break
		}
		line("the robots.txt of %s that decided is no longer kept here, and missing in the archive: %s", m.Origin, m.SHA256)
	}
}

func evidenceVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [flags] FILE",
		Short: "Check that an archive is as it was made, and say who signed it",
		Long: `Check that not one octet of an archive was changed since robotsproxy evidence made it,
and print whose keys have signed it. Whoever makes an archive chooses the key in it: find
out by another way that the key is the bot's, and name its thumbprint with --key. Exit
code: 0 the archive is as it was made and every --key has signed it, 1 it is not, 2 a flag
is bad.`,
		Example: `  robotsproxy evidence verify quarter.zip
  robotsproxy evidence verify --key poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U quarter.zip`,
		Args: oneArgument("FILE", "evidence.zip"),
	}
	keys := cmd.Flags().StringArray("key", nil, "the key with this `THUMBPRINT` must have signed it, as keys list and the key directory (kid) name it; may be repeated")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, args []string) error {
		verified, err := verifyFile(args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		for _, key := range *keys {
			if !slices.Contains(verified.Keys, key) {
				return fmt.Errorf("%s: the key %s has not signed it; signed by: %s", args[0], key, strings.Join(append(verified.Keys, "nobody")[:max(1, len(verified.Keys))], ", "))
			}
		}
		return printVerified(cmd.OutOrStdout(), verified, len(*keys) > 0)
	})
	return cmd
}

func verifyFile(name string) (v sealedzip.Verified, err error) {
	file, err := os.Open(name)
	if err != nil {
		return v, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return v, err
	}
	if !info.Mode().IsRegular() {
		return v, errors.New("it is not a regular file; name the archive itself")
	}
	return evidence.Verify(file, info.Size())
}

func printVerified(w io.Writer, v sealedzip.Verified, trusted bool) error {
	text := fmt.Sprintf("Whole: all %d files are as SHA256SUMS lists them, and there is no other.\n", len(v.Files))
	for _, key := range v.Keys {
		text += fmt.Sprintf("Signed by the key %s.\n", key)
	}
	switch {
	case len(v.Keys) == 0:
		text += "Not signed: anyone can have made it.\n"
	case !trusted:
		text += "Find out by another way whose key that is, such as the key directory that README.txt names; then name it with --key.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
