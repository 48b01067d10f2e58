package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/proxy/redirect"
)

// transparentPort is the port of the transparent door unless one is given.
const transparentPort = 15001

func redirectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redirect",
		Short: "Lead a machine's or a pod's connections to the transparent door",
		Long: `Have the kernel lead connections to the transparent door of "robotsproxy serve" (key
transparent), so that programs need no proxy variables and can't go past the proxy. It
holds for all programs on this machine, or in this pod or container, of all users that
are not excepted:

  - TCP connections are led to the door, whatever their port.
  - DNS (port 53), ICMP and loopback are left alone.
  - Everything else, such as HTTP/3 over UDP, is rejected at once.

TCP connections that exist already, and answers to clients from outside, stay as they are.
Containers with a network of their own are not concerned. The rules are a table of their
own in nf_tables, "inet robotsproxy"; no other table is touched. They are gone after a
restart of the machine. It takes Linux 5.2 and CAP_NET_ADMIN.`,
		Example: `  sudo robotsproxy redirect install --except-uid robotsproxy
  sudo robotsproxy redirect show
  sudo robotsproxy redirect remove`,
		Args: isSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			cmd.Help()
			return exit{code: exitUsage}
		},
	}
	cmd.AddCommand(redirectInstallCommand(), redirectRemoveCommand(), redirectShowCommand())
	return cmd
}

func redirectInstallCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install --except-uid UID [--except-uid UID]… [--to PORT]",
		Short: "Install the redirection, in place of one that is there",
		Long: `Install the redirection, in place of one that is there, all at once. The user that the
proxy runs as must be excepted, since the proxy's own connections would come back to it.
Other users that may need it are those of programs that speak something else than HTTP:
the time service, a DHCP client, a resolver that uses DNS over TLS.

Connections are refused until the proxy listens on the port.`,
		Example: `  sudo robotsproxy redirect install --except-uid robotsproxy
  sudo robotsproxy redirect install --to 15001 --except-uid 65532 --except-uid systemd-timesync`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	addSettings(cmd)
	to := cmd.Flags().Uint16("to", 0, fmt.Sprintf("port of the transparent door (default: that of transparent in the configuration, else %d)", transparentPort))
	except := cmd.Flags().StringArray("except-uid", nil, "user, by number or name, whose connections are left alone: the proxy's own; may repeat")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		rules := redirect.Rules{Port: *to}
		var err error
		if rules.Except, err = uids(*except); err != nil {
			return exit{exitUsage, err}
		}
		if !cmd.Flags().Changed("to") {
			rules.Port, err = configuredPort(cmd)
		} else if rules.Port == 0 {
			err = exit{exitUsage, errors.New("--to 0: no door can have this port")}
		}
		if err != nil {
			return err
		}
		return redirect.Install(rules)
	})
	return cmd
}

// uids are the numbers of users that are given by number or name.
func uids(users []string) ([]uint32, error) {
	if len(users) == 0 {
		return nil, errors.New("--except-uid is missing: the proxy's own connections would come back to it; name the user that it runs as, for example --except-uid 65532")
	}
	var all []uint32
	for _, given := range users {
		uid, err := strconv.ParseUint(given, 10, 32)
		if known, lookupErr := user.Lookup(given); err != nil && lookupErr == nil {
			uid, err = strconv.ParseUint(known.Uid, 10, 32)
		}
		if err != nil || uid == noUser {
			return nil, fmt.Errorf("--except-uid %s: no such user; give a name of /etc/passwd or a number", given)
		}
		all = append(all, uint32(uid))
	}
	return all, nil
}

// noUser is the number that stands for no user.
const noUser = 1<<32 - 1

// configuredPort is the port of the transparent door by the configuration.
func configuredPort(cmd *cobra.Command) (uint16, error) {
	cfg, err := loadConfig(cmd, config.Default())
	if err != nil || cfg.Transparent == "" {
		return transparentPort, err
	}
	_, text, _ := net.SplitHostPort(cfg.Transparent)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, exit{exitUsage, errors.New("transparent in the configuration says any free port: give the one that serve logs by --to")}
	}
	return uint16(port), nil
}

func redirectRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove",
		Short:   "Remove the redirection",
		Long:    "Remove the redirection. It is no error if there is none.",
		Example: `  sudo robotsproxy redirect remove`,
		Args:    noArguments,
		RunE: withExitCode(func(*cobra.Command, []string) error {
			if err := redirect.Remove(); !errors.Is(err, redirect.ErrNotInstalled) {
				return err
			}
			return nil
		}),
	}
}

func redirectShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Show what is installed, and what it has done",
		Long:    "Show what is installed, and what it has done since. Exit code: 0 something is\ninstalled, 1 nothing is.",
		Example: `  sudo robotsproxy redirect show`,
		Args:    noArguments,
		RunE: withExitCode(func(cmd *cobra.Command, _ []string) error {
			s, err := redirect.Installed()
			if err != nil {
				return err
			}
			showRedirection(cmd.OutOrStdout(), s)
			return nil
		}),
	}
}

func showRedirection(w io.Writer, s redirect.Status) {
	fmt.Fprintf(w, "connections lead to port %d\n", s.Port)
	for _, uid := range s.Except {
		name := ""
		if known, err := user.LookupId(fmt.Sprint(uid)); err == nil {
			name = " (" + known.Username + ")"
		}
		fmt.Fprintf(w, "except those of user %d%s\n", uid, name)
	}
	fmt.Fprintf(w, "%d connections redirected\n%d packets rejected\n", s.Redirected, s.Rejected)
}
