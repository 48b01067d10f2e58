package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/config"
)

func healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the running admin server whether it is alive",
		Long:  "Ask the running admin server whether it is alive: for container probes in an image\nthat has no shell. Exit code: 0 it is, 1 it is not.",
		Example: `  robotsproxy healthcheck
  robotsproxy healthcheck --admin-listen 127.0.0.1:9091`,
		Args: func(cmd *cobra.Command, args []string) error { return healthcheckError(noArguments(cmd, args)) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return healthcheckError(err) })
	addSettings(cmd, adminListenSetting)
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadConfig(cmd, config.Default(), adminListenSetting)
		if err != nil {
			return healthcheckError(err)
		}
		return healthcheck(cmd.Context(), cfg.AdminListen)
	})
	return cmd
}

// healthcheckError gives an error the exit code 1: a container's health check must not
// end with 2.
func healthcheckError(err error) error {
	if err == nil {
		return nil
	}
	return exit{exitFailed, err}
}

func healthcheck(ctx context.Context, adminListen string) error {
	if adminListen == "" {
		return errors.New("there is no admin server to ask: admin_listen is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := "http://" + dialAddress(adminListen) + "/healthz"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{}} // ignores proxy variables
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("asking the admin server: %w; start robotsproxy serve, or name its admin server with --admin-listen", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the admin server: %s answers %s", url, resp.Status)
	}
	return nil
}

// dialAddress is the address to dial for a server of this machine that listens on the
// given one, which may stand for all addresses.
func dialAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && addr.IsUnspecified() && addr.Is4():
		host = "127.0.0.1"
	case err == nil && addr.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
