package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/certs"
	"robotsproxy/cli/engine"
	"robotsproxy/cli/environment"
	"robotsproxy/config"
)

func envCommand() *cobra.Command {
	settings := append([]setting{listenSetting}, commonSettings...)
	cmd := &cobra.Command{
		Use:   "env [--shell sh|fish|powershell|dotenv] [--tls] [--unset]",
		Short: "Print the variables that point clients at a running proxy",
		Long: `Print the variables that point clients at a running "robotsproxy serve" and have
them trust its CA. "robotsproxy run" sets the same variables for its command. Use the
same configuration as serve, so that the variables name the same address and CA. env
warns if no proxy answers there, or one with another CA. The last example adds a user
name, by which an identity can recognise its clients.

With --unset, env prints commands that undo what an earlier env has set in this shell.
They do not bring back what the variables said before: open a new shell for that.

With --tls, the variables name the proxy as one that is reached over TLS: at the address
of listen_tls, or at the one that --listen gives, which must be in its certificate. Some
clients can't reach such a proxy: wget, Java, Ruby and Python's urllib then fail, and
Python's aiohttp goes straight to the site.`,
		Example: `  eval "$(robotsproxy env)"                               # sh, bash, zsh
  eval "$(robotsproxy env --unset)"                       # and back
  robotsproxy env --shell fish | source                   # fish
  robotsproxy env --shell powershell | Invoke-Expression  # PowerShell
  robotsproxy env --shell dotenv > proxy.env              # docker run --env-file, compose, systemd
  eval "$(robotsproxy env --tls --listen proxy.example.org:8443)"
  eval "$(robotsproxy env | sed 's|http://|&images:x@|')" # as the user images`,
		Args: noArguments,
	}
	addSettings(cmd, settings...)
	shell := cmd.Flags().String("shell", "sh", "shell to write for: sh, fish, powershell or dotenv")
	unset := cmd.Flags().Bool("unset", false, "undo what an earlier env has set")
	secure := cmd.Flags().Bool("tls", false, "name the proxy as one that is reached over TLS")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		line, ok := shells[*shell]
		if !ok {
			return exit{exitUsage, fmt.Errorf("--shell: %q is none of sh, fish, powershell, dotenv", *shell)}
		}
		if *unset {
			return printUndone(cmd, *shell)
		}
		if *secure {
			settings[0].key = "listen_tls.address"
		}
		cfg, err := loadConfig(cmd, config.Default(), settings...)
		if err != nil {
			return err
		}
		variables, warnings, err := serveVariables(cmd.Context(), cfg, *secure)
		if err != nil {
			return err
		}
		for _, warning := range warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: %s\n", warning)
		}
		for _, v := range variables {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), line(v)); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// serveVariables are the variables for clients of the proxy that serve runs with cfg, which
// reach it over TLS if secure is true.
func serveVariables(ctx context.Context, cfg config.Config, secure bool) (variables []environment.Variable, warnings []string, err error) {
	scheme, address := "http", cfg.Listen
	if secure {
		scheme, address = "https", cfg.ListenTLS.Address
	}
	if address == "" {
		return nil, nil, errors.New("listen_tls names no address; name the address of the running proxy with --listen")
	}
	address = dialAddress(address)
	if strings.HasSuffix(address, ":0") {
		return nil, nil, errors.New("listen names no port (0 is any free one); name the address of the running proxy with --listen")
	}
	ca, err := engine.OpenCA(cfg)
	if err != nil {
		return nil, nil, err
	}
	folder, err := engine.TrustFolder(cfg)
	if err != nil {
		return nil, nil, err
	}
	trust, err := environment.WriteShellTrust(ca, folder, os.Getenv)
	if err != nil {
		return nil, nil, err
	}
	warnings = trust.Warnings
	if warning := warnOfAnother(ctx, scheme, address, ca); warning != "" {
		warnings = append(warnings, warning)
	}
	if secure {
		warnings = append(warnings, "Python's aiohttp ignores variables that name a proxy over TLS, and goes straight to the site: "+
			"give it the proxy in each request, for example session.get(url, proxy=os.environ[\"ROBOTSPROXY_URL\"])")
	}
	if cfg.Clients.Htpasswd != "" {
		warnings = append(warnings, "clients.htpasswd asks for a user and a password, which these variables lack; "+
			"to add them: robotsproxy env | sed 's|"+scheme+"://|&USER:PASSWORD@|'")
	}
	return environment.Variables(scheme, address, trust, os.Getenv), warnings, nil
}

// warnOfAnother asks the proxy at address, which speaks TLS if scheme is https, for its CA. It
// returns a warning if nothing answers there, or something other than the proxy with this CA.
func warnOfAnother(ctx context.Context, scheme, address string, ca *certs.CA) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/ca.pem", nil)
	if err != nil {
		return ""
	}
	// The proxy variables don't count, and its certificate proves nothing about its CA, which is
	// no secret.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		if cause, ok := errors.AsType[syscall.Errno](err); ok {
			err = cause
		}
		return fmt.Sprintf("no proxy answers at %s (%v); start robotsproxy serve, or name its address with --listen", address, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch {
	case resp.StatusCode == http.StatusOK && bytes.Equal(body, ca.PEM()):
		return ""
	case resp.StatusCode == http.StatusOK && bytes.HasPrefix(body, []byte("-----BEGIN CERTIFICATE-----")):
		return fmt.Sprintf("the proxy at %s has another CA than %s, so clients will not trust it; give env the --config and --data-dir of serve", address, ca.Path())
	case resp.Header.Get("Proxy-Status") != "": // it does not admit clients from here
		return ""
	}
	return fmt.Sprintf("what answers at %s is not robotsproxy; name the proxy's address with --listen", address)
}

// printUndone prints the commands that undo an earlier env.
func printUndone(cmd *cobra.Command, shell string) error {
	undo, ok := undoers[shell]
	if !ok {
		return exit{exitUsage, fmt.Errorf("--unset: a %s file can't unset variables; remove the file", shell)}
	}
	undone := environment.Undo(os.Getenv)
	if len(undone) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "robotsproxy: there is nothing to unset: no robotsproxy env was evaluated in this shell")
	}
	for _, v := range undone {
		text := undo + v.Name
		if v.Value != "" {
			text = shells[shell](v)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	return nil
}

// undoers has for each shell the command that unsets the variable whose name follows.
var undoers = map[string]string{"sh": "unset ", "fish": "set -e ", "powershell": "Remove-Item -ErrorAction Ignore Env:"}

// shells has for each shell a function that writes the line that sets a variable.
var shells = map[string]func(environment.Variable) string{
	"sh": func(v environment.Variable) string {
		return "export " + v.Name + "=" + quoteForShell(v.Value)
	},
	"fish": func(v environment.Variable) string {
		return "set -gx " + v.Name + " '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v.Value) + "'"
	},
	"powershell": func(v environment.Variable) string {
		return "$env:" + v.Name + " = '" + strings.ReplaceAll(v.Value, "'", "''") + "'"
	},
	// All readers of such files accept values without quotes, even with spaces. Container
	// engines don't understand quotes at all.
	"dotenv": func(v environment.Variable) string {
		if v.Value == strings.TrimSpace(v.Value) && !strings.ContainsAny(v.Value, "\"'`$\\#\n") {
			return v.Name + "=" + v.Value
		}
		return v.Name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(v.Value) + `"`
	},
}

// quoteForShell quotes a text for a POSIX shell.
func quoteForShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
