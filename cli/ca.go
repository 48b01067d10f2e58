package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"robotsproxy/cli/engine"
	"robotsproxy/config"
)

func caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Print the CA certificate in PEM; make the CA if there is none",
		Long: `Print the certificate of the CA that lets the proxy read inside TLS; make the CA if
there is none. Clients must trust it: "robotsproxy env" prints the variables for that.
Its key stays in the data directory.`,
		Example: `  robotsproxy ca > ca.pem
  curl --cacert "$(robotsproxy ca --path)" -x http://127.0.0.1:8080 https://example.com/`,
		Args: noArguments,
	}
	addSettings(cmd, commonSettings...)
	path := cmd.Flags().Bool("path", false, "print the path of the certificate instead")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default(), commonSettings...)
		if err != nil {
			return err
		}
		ca, err := engine.OpenCA(cfg)
		if err != nil {
			return err
		}
		if *path {
			fmt.Fprintln(cmd.OutOrStdout(), ca.Path())
			return nil
		}
		_, err = cmd.OutOrStdout().Write(ca.PEM())
		return err
	})
	return cmd
}
