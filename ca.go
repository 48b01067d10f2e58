package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"robotsproxy/certs"
	"robotsproxy/config"
)

func caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Print the CA certificate in PEM, making the CA if there is none",
		Args:  cobra.NoArgs,
	}
	addSettings(cmd, commonSettings...)
	path := cmd.Flags().Bool("path", false, "print the path of the certificate instead")
	cmd.RunE = runs(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default(), commonSettings...)
		if err != nil {
			return err
		}
		ca, err := openCA(cfg)
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

func openCA(cfg config.Config) (*certs.CA, error) {
	folder, err := cfg.DataFolder()
	if err != nil {
		return nil, err
	}
	return certs.Open(cfg.HTTPS.Options, folder)
}
