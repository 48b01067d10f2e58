package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
	"robotsproxy/config/strictyaml"
)

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Say what is wrong with a configuration",
		Long: `Report every mistake in a configuration, one a line: file, line, column and remedy.
Settings that are valid but would refuse requests needlessly, or do not do what they
say, get a warning. With cache.store: redis it asks Redis whether login, database,
certificates and the user's rights are right. Exit code: 0 the configuration is
valid, 2 it is not.`,
		Example: `  robotsproxy validate --config robotsproxy.yaml`,
		Args:    cobra.NoArgs,
	}
	addSettings(cmd)
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		file, _, given := lookup(cmd, configFlag)
		if !given {
			return exit{exitUsage, errors.New("no configuration to validate; name one with --config FILE")}
		}
		cfg, err := loadConfig(cmd, config.Default())
		if err != nil {
			return err
		}
		away, err := engine.CheckRedis(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		for _, warning := range append(away, cfg.Warnings()...) {
			fmt.Fprintln(cmd.ErrOrStderr(), strictyaml.Error{Position: warning.Position, Message: "warning: " + warning.Message})
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: valid\n", file)
		return nil
	})
	return cmd
}
