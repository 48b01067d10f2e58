// Package cli is the command line: a file for each command, and the wiring of what
// serve and run start.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/internal/printable"
)

// Main runs the command line that the process was started with and returns its exit
// code. It sets up what holds for the whole process, so call it once.
func Main() int {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" // a global of the library
	ballast := setMemory()
	defer runtime.KeepAlive(ballast)
	return execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// The exit codes that every command shares.
const (
	exitDone   = 0
	exitFailed = 1 // while running
	exitUsage  = 2 // bad usage or configuration
)

// exit is an error that names its exit code. One without a message has been
// told already.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "robotsproxy",
		Short: "A forward proxy that makes any bot obey robots.txt",
		Long: `A forward proxy that makes any bot obey robots.txt without changing the bot. What a
site's robots.txt allows the bot goes through untouched, the rest is answered 403
with the rule that refuses it.`,
		Example: `  robotsproxy run -- scrapy crawl books       # one command behind a proxy of its own
  robotsproxy serve                           # a proxy for all who name it
  eval "$(robotsproxy env)"                   # point this shell's programs at it
  robotsproxy check --agent ExampleBot https://example.com/`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			cmd.Help()
			return exit{code: exitUsage}
		},
	}
	root.AddCommand(
		serveCommand(), runCommand(), envCommand(), checkCommand(), historyCommand(), validateCommand(),
		caCommand(), healthcheckCommand(), versionCommand(), manCommand(),
	)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var (
		e   exit
		bad config.Errors
	)
	isExit := errors.As(err, &e)
	if !isExit && errors.As(err, &bad) {
		e, isExit = exit{exitUsage, bad}, true
	}
	if isExit {
		tell(stderr, e.err)
		return e.code
	}
	// What is left are cobra's own errors: unknown commands, flags, arguments.
	fmt.Fprintf(stderr, "robotsproxy: %s\nTry: %s --help\n", printable.Text(err.Error()), cmd.CommandPath())
	return exitUsage
}

// tell prints an error. Those of a configuration say in each line where it is.
func tell(stderr io.Writer, err error) {
	var bad config.Errors
	switch {
	case errors.As(err, &bad):
		fmt.Fprintln(stderr, printable.Text(bad.Error()))
	case err != nil:
		fmt.Fprintf(stderr, "robotsproxy: %s\n", printable.Text(err.Error()))
	}
}

// runs adapts what a command does to cobra: an error that names no exit code is
// a failure while running.
func runs(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		if err == nil || errors.As(err, new(exit)) || errors.As(err, new(config.Errors)) {
			return err
		}
		return exit{exitFailed, err}
	}
}
