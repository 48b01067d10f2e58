package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"robotsproxy/internal/build"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version",
		Example: `  robotsproxy version`,
		Args:    noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), versionText())
		},
	}
}

func versionText() string {
	version, commit := build.Version()
	return fmt.Sprintf("robotsproxy %s (commit %s, %s %s/%s)", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
