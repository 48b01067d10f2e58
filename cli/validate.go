package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/config/strictyaml"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [flags] [FILE]",
		Short: "Say what is wrong with a configuration",
		Long: `Report every mistake in a configuration, one a line: file, line, column and remedy.
Settings that are valid but would refuse requests needlessly, or do not do what they
say, get a warning. FILE may be given by --config too; - is standard input. With
cache.store: redis it asks Redis whether login, database, certificates and the user's
rights are right. Exit code: 0 the configuration is valid, 2 it is not or, with
--strict, there is a warning.`,
		Example: `  robotsproxy validate robotsproxy.yaml
  robotsproxy validate --strict --json - < robotsproxy.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return unexpected(args[1])
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
	}
	addSettings(cmd)
	strict := cmd.Flags().Bool("strict", false, "take warnings for mistakes")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object, with the mistakes and warnings")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, args []string) error {
		file, _, given := lookup(cmd, configFlag)
		switch {
		case len(args) == 1 && cmd.Flags().Changed(configFlag.flag):
			return exit{exitUsage, fmt.Errorf("there are two configurations, %s and --config %s; leave out one", args[0], file)}
		case len(args) == 1:
			file = args[0]
		case !given:
			return exit{exitUsage, errors.New("no configuration to validate; name its file, or - for standard input")}
		}
		if file == "-" {
			file = "<stdin>"
		}
		found, err := findMistakes(cmd, file)
		if err != nil {
			return err
		}
		found.Valid = len(found.Mistakes) == 0 && (len(found.Warnings) == 0 || !*strict)
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), found)
		} else {
			found.print(cmd)
		}
		if err == nil && !found.Valid {
			return exit{code: exitUsage}
		}
		return err
	})
	return cmd
}

// A validation is what validate has found.
type validation struct {
	File     string  `json:"file"`
	Valid    bool    `json:"valid"`
	Mistakes []place `json:"mistakes"`
	Warnings []place `json:"warnings"`
}

// A place is a mistake or a warning, and where it is. Line and Column are 0 if it is in no line
// of the file.
type place struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`

	fault strictyaml.Error
}

// findMistakes reads the named file, which may be <stdin>, as serve would. An error is not
// about the file.
func findMistakes(cmd *cobra.Command, file string) (validation, error) {
	found := validation{File: file, Mistakes: []place{}, Warnings: []place{}}
	load := func() (config.Config, error) { return config.Load(config.Default(), file) }
	if file == "<stdin>" {
		text, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return found, fmt.Errorf("reading the configuration from standard input: %w", err)
		}
		load = func() (config.Config, error) { return config.Parse(config.Default(), file, text) }
	}
	cfg, err := load()
	var away []strictyaml.Error
	if err == nil {
		away, err = engine.CheckRedis(cmd.Context(), cfg)
	}
	mistakes, ok := errors.AsType[strictyaml.Errors](err)
	if err != nil && !ok {
		return found, err
	}
	found.Mistakes = append(found.Mistakes, places(mistakes)...)
	found.Warnings = append(found.Warnings, places(append(away, cfg.Warnings()...))...)
	return found, nil
}

func places(faults []strictyaml.Error) (all []place) {
	for _, fault := range faults {
		all = append(all, place{fault.Line, fault.Column, fault.Message, fault})
	}
	return all
}

// print prints mistakes and warnings on standard error, each with its place.
func (v validation) print(cmd *cobra.Command) {
	for _, m := range v.Mistakes {
		printError(cmd.ErrOrStderr(), strictyaml.Errors{m.fault})
	}
	for _, w := range v.Warnings {
		printError(cmd.ErrOrStderr(), strictyaml.Errors{{Position: w.fault.Position, Message: "warning: " + w.fault.Message}})
	}
	if v.Valid {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", v.File)
	}
}
