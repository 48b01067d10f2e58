package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go version",
		Example: `  robotsproxy version`,
		Args:    cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			version, commit := buildVersion()
			fmt.Fprintf(cmd.OutOrStdout(), "robotsproxy %s (commit %s, %s %s/%s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

// buildVersion is what the Go toolchain recorded about the source.
func buildVersion() (version, commit string) {
	version, commit = "devel", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}

// newBuildInfo is a metric that is always 1; its labels say which build runs.
func newBuildInfo() prometheus.Collector {
	version, commit := buildVersion()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "robotsproxy_build_info",
		Help:        "What runs; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}
