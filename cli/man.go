package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"robotsproxy/internal/build"
)

// manCommand writes the texts of --help as manual pages. It is for packagers.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages into a folder",
		Example: `  robotsproxy man /usr/local/share/man/man1`,
		Args:    cobra.ExactArgs(1),
		Hidden:  true,
		RunE: withExitCode(func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			version, _ := build.Version()
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "robotsproxy " + version, Manual: "robotsproxy"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			return nil
		}),
	}
}
