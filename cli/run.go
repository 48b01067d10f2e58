package cli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/cli/child"
	"robotsproxy/cli/engine"
	"robotsproxy/cli/environment"
	"robotsproxy/cli/summary"
	"robotsproxy/config"
	"robotsproxy/internal/clientsetup"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/seal"
	"robotsproxy/proxy/sealed"
	"robotsproxy/proxy/upstream"
)

// exitProxy is the exit code of run when it could not start its proxy, or can't write the
// summary to the file that the user names. All other codes of run come from its command.
const exitProxy = 125

// exitRefused is the exit code of run --fail-on-refused when the command has succeeded.
const exitRefused = 1

// sealedSetting is a setting of run alone.
var sealedSetting = setting{"sealed", "run.sealed", "let the proxy be the command's only way out (Linux)"}

func runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command whose requests obey robots.txt",
		Long: `Run a command behind a private proxy. The command's environment points its clients
at the proxy and has them trust the proxy's CA. Signals are passed on. A summary on
standard error says at the end what was refused; --summary writes it as JSON too.

A proxy that your own variables name becomes the parent of this one. The exit code is
the command's own, 128+N if signal N ended it, 127 if it isn't found, 126 if it can't
be executed, 125 if run itself failed before: it was used wrongly, the proxy could not
start, or --summary names a file that can't be written. With --fail-on-refused it is 1
if the command succeeded but a request was refused.

With --sealed, the command has a network of its own, whose only way out is the proxy.
So it obeys whether or not it heeds variables. HTTP and HTTPS to every port are led to
the proxy, and all else is refused but for what --allow and --forward name. The command
trusts the proxy's CA by the system's own files too. If the system can't do that, the
command is not started.

` + clientsHelp(),
		Example: `  robotsproxy run -- scrapy crawl books
  robotsproxy run -- python3 spider.py
  robotsproxy run --log-file decisions.log -- ./crawl.sh   # a line of JSON for each request
  robotsproxy run --summary run.json -- ./crawl.sh         # what was refused, as JSON
  robotsproxy run --fail-on-refused -- ./crawl.sh          # for CI
  robotsproxy run --admin-listen 127.0.0.1:9091 -- ./crawl.sh   # with the dashboard
  robotsproxy run --config bots.yaml -- wget -r https://example.com/
  robotsproxy run --sealed -- npm start        # whatever its libraries do
  robotsproxy run --sealed --forward 5432 --allow git.example.com:22 -- ./crawl.sh`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return errors.New("there is no command to run; write it after --, for example robotsproxy run -- curl https://example.com/")
			}
			return nil
		},
	}
	addSettings(cmd, commonSettings...)
	flags.register(cmd)
	cmd.Flags().SetInterspersed(false) // flags after the command's name are the command's own
	cmd.RunE = func(cmd *cobra.Command, command []string) error {
		if cmd.Flags().Changed("summary") {
			if err := summary.CheckFile(flags.summary); err != nil {
				return exit{exitProxy, fmt.Errorf("--summary: %w", err)}
			}
		}
		return run(cmd, flags, command)
	}
	return cmd
}

// runFlags are the flags of run that set no key of the configuration.
type runFlags struct {
	allow   []string // these two add to the section "run" of the configuration
	forward []string
	summary string // a file; "": none
	quiet   bool   // print nothing but errors

	adminListen   string // "": no admin server
	failOnRefused bool
}

func (f *runFlags) register(cmd *cobra.Command) {
	cmd.Flags().Bool(sealedSetting.flag, false, sealedSetting.help+" ["+sealedSetting.variable()+"]")
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "`HOST:PORT` that a sealed command reaches without being judged; may be repeated")
	cmd.Flags().StringArrayVar(&f.forward, "forward", nil, "`PORT` of this machine's 127.0.0.1 that a sealed command finds at its own; may be repeated")
	cmd.Flags().StringVar(&f.adminListen, "admin-listen", "", "`ADDRESS` of an admin server with metrics and dashboard, while the command runs")
	cmd.Flags().BoolVar(&f.failOnRefused, "fail-on-refused", false, "exit with 1 if the command succeeds but a request was refused")
	cmd.Flags().StringVar(&f.summary, "summary", "", "write the summary as JSON to `FILE` too, however the command ends")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print nothing but errors: no summary, and not what requests wait for")
}

// addTo adds what --allow and --forward name to the options of a configuration.
func (f runFlags) addTo(o *sealed.Options) error {
	if !o.Sealed && len(f.allow)+len(f.forward) > 0 {
		return errors.New("--allow and --forward are for a sealed command alone; add --sealed")
	}
	for _, text := range f.allow {
		var d sealed.Destination
		if err := d.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--allow: %w", err)
		}
		o.Allow = append(slices.Clip(o.Allow), d)
	}
	for _, text := range f.forward {
		var p sealed.Port
		if err := p.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("--forward: %w", err)
		}
		if !slices.Contains(o.Forward, p) {
			o.Forward = append(slices.Clip(o.Forward), p)
		}
	}
	return keyerr.In("run", o.Validate())
}

// clientsHelp lists what each client needs besides the variables.
func clientsHelp() string {
	var table strings.Builder
	for _, c := range clientsetup.Clients {
		fmt.Fprintf(&table, "\n  %-36s%s", c.Name, cmp.Or(c.Needs, "nothing"))
	}
	return "What each client needs besides the variables (docs/clients.md has the details):\n" + table.String()
}

// runConfig reads the configuration of a private proxy. Standard error belongs to the
// command, so the log has only errors there. A log file gets the default level, which
// includes every decision.
func runConfig(cmd *cobra.Command, flags runFlags) (config.Config, error) {
	settings := append(slices.Clip(commonSettings), sealedSetting)
	base := config.Default()
	base.Log.Level = "error"
	cfg, err := loadConfig(cmd, base, settings...)
	if err == nil && cfg.Log.File != "" {
		cfg, err = loadConfig(cmd, config.Default(), settings...)
	}
	if err == nil {
		err = flags.addTo(&cfg.Run)
	}
	if err != nil {
		return cfg, err
	}
	// Who may use a shared proxy, and at which address, does not concern a private one.
	cfg.Clients = access.Defaults()
	if !cfg.Run.Sealed {
		// Nobody else reaches the sockets of a sealed command's network. So no connection there
		// needs to be traced to its user, which could not be done from this network anyway.
		cfg.Clients.Connections = child.CommandUsers()
	}
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", flags.adminListen
	cfg.Name += "-run-" + strings.ToLower(rand.Text()[:6]) // no other run is likely to have it
	if cfg.Upstream.Proxy == "" {
		cfg.Upstream.Parents, err = upstream.ParentsOf(os.Getenv)
	}
	return cfg, err
}

// run runs the command behind a proxy of its own, and writes the summary to the file that
// the flags name. The error is an exit with the command's code.
func run(cmd *cobra.Command, flags runFlags, command []string) error {
	// Until the end: a signal must not keep the proxy's files from being removed, nor the
	// summary from being written.
	signals, stop := child.NotifySignals()
	defer stop()
	s := summary.New(time.Now())
	ending, err := runBehindProxy(cmd, flags, command, signals, s)
	s.End(time.Now(), ending.Code, ending.Signal, err)
	if flags.summary != "" {
		err = errors.Join(err, s.WriteFile(flags.summary))
	}
	return exit{ending.Code, err}
}

// runBehindProxy runs the command behind a proxy of its own. It notes in s what became of
// its requests and, if the command was started, prints that.
func runBehindProxy(cmd *cobra.Command, flags runFlags, command []string, signals <-chan os.Signal, s *summary.Summary) (child.Ending, error) {
	cfg, err := runConfig(cmd, flags)
	if err != nil {
		return child.Ending{Code: exitProxy}, err
	}
	var requests summary.Counter
	p, err := engine.OpenPrivate(cmd.Context(), cfg, requests.Add, cmd.ErrOrStderr())
	if err != nil {
		return child.Ending{Code: exitProxy}, err
	}
	if p.AdminAddress != "" && !flags.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: the dashboard is at http://%s/\n", p.AdminAddress)
	}
	c := newChild(cmd, command, p)
	if !flags.quiet {
		defer p.TellWaits(func(line string) { fmt.Fprintf(cmd.ErrOrStderr(), "robotsproxy: %s\n", line) })()
	}
	ending, err := child.Run(c, func() error { return p.Start(cmd.Context(), c) }, signals)
	if failure, unsealed := errors.AsType[*seal.Error](err); unsealed {
		ending, err = notSealed(failure)
	}
	closeErr := p.Close()
	s.Requests = requests.Requests()
	s.Distrusted = append(s.Distrusted, p.Distrusted()...)
	s.Sealed, s.Sealable = p.Sealed(), !cfg.Run.Sealed && seal.Likely()
	s.NoProxy = summary.NoProxy{Hosts: append(s.NoProxy.Hosts, exempt()...), Judged: cfg.Run.Sealed}
	s.Inner = child.Inside(os.Getenv("ROBOTSPROXY_CA_FILE"))
	if err == nil && !flags.quiet {
		s.Print(cmd.ErrOrStderr())
	}
	if flags.failOnRefused && ending.Code == 0 && s.Refused > 0 {
		ending.Code = exitRefused
	}
	return ending, errors.Join(err, closeErr)
}

// exempt are the hosts that the command's clients reach without the proxy if they heed
// no_proxy.
func exempt() []string {
	named, _ := upstream.ParentsOf(func(name string) string { // its errors are about other variables
		if strings.EqualFold(name, "no_proxy") {
			return os.Getenv(name)
		}
		return ""
	})
	return named.Exempt()
}

// notSealed is the ending of a command that could not be sealed, and its error.
func notSealed(failure *seal.Error) (child.Ending, error) {
	// Ctrl-C in a terminal reaches a command that is being sealed too.
	if s, ended := errors.AsType[seal.Signaled](failure); ended && syscall.Signal(s) == syscall.SIGINT {
		return child.BySignal(syscall.SIGINT), nil
	}
	return child.Ending{Code: exitProxy}, failure
}

// newChild returns the user's command with an environment that points its clients at p.
func newChild(cmd *cobra.Command, command []string, p *engine.Private) *exec.Cmd {
	c := child.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	c.Env = os.Environ()
	for _, v := range environment.Variables("http", p.Address, p.Trust, os.Getenv) {
		c.Env = append(c.Env, v.Name+"="+v.Value)
	}
	return c
}
