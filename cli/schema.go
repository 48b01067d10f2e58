package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"robotsproxy/config"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configurations, for editors",
		Long: `Print the JSON Schema of configurations. An editor with a YAML language server then
completes keys and words, shows what they mean, and marks mistakes, if the file begins
with this line:

  # yaml-language-server: $schema=robotsproxy.schema.json`,
		Example: `  robotsproxy schema > robotsproxy.schema.json`,
		Args:    noArguments,
		RunE: withExitCode(func(cmd *cobra.Command, _ []string) error {
			schema, err := config.Schema()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", schema)
			return err
		}),
	}
}
