// Package cli is the command line of robotsproxy. Each command has a file of its own,
// named for it. What they open and start is in package engine; what else they do and know is
// in the packages beside it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/seal"
)

// Main runs the command line that the process was started with and returns its exit
// code. It changes settings of the whole process: call it once.
func Main() int {
	seal.Main()                                               // before anything costs time: the process may have to become a sealed command
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

// exit is an error with an exit code. It has no message (err is nil) when the command
// has already said what is wrong.
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
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var e exit
	if errors.As(err, &e) {
		printError(stderr, e.err)
		return e.code
	}
	// All other errors are cobra's own: unknown commands, flags, arguments.
	printError(stderr, err)
	fmt.Fprintf(stderr, "Try: %s --help\n", cmd.CommandPath())
	if cmd.Name() == "run" {
		return exitProxy // exitUsage would pass for the command's own
	}
	return exitUsage
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "robotsproxy",
		Short: "A forward proxy that makes any bot obey robots.txt",
		Long: `A forward proxy that makes any bot obey robots.txt without changing the bot. What a
site's robots.txt allows the bot passes unchanged. Every other request is answered
403, with the rule that forbids it.`,
		Example: `  robotsproxy run -- scrapy crawl books       # one command behind its own proxy
  robotsproxy serve                           # a proxy for every client that names it
  eval "$(robotsproxy env)"                   # point this shell's programs at it
  robotsproxy check --agent ExampleBot https://example.com/`,
		Args:          isSubcommand,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// cobra's own --version has a template, which would make the linker keep every method.
	version := root.Flags().Bool("version", false, "print what version prints")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		}
		cmd.SetOut(cmd.ErrOrStderr())
		cmd.Help()
		return exit{code: exitUsage}
	}
	root.AddCommand(
		serveCommand(), runCommand(), envCommand(), checkCommand(), historyCommand(), reportCommand(), evidenceCommand(),
		validateCommand(), schemaCommand(), caCommand(), keysCommand(), redirectCommand(), healthcheckCommand(), versionCommand(), manCommand(),
	)
	completeFlags(root)
	return root
}

// isSubcommand checks the arguments of a command that only has subcommands. Whatever it gets, it
// has no subcommand of that name.
func isSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	for mistakes := 1; mistakes <= 2; mistakes++ {
		cmd.SuggestionsMinimumDistance = mistakes
		if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
			return fmt.Errorf("%s; did you mean %s?", message, strings.Join(meant, " or "))
		}
	}
	return errors.New(message)
}

// noArguments checks that a command that takes no arguments has none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := unexpected(args[0])
	if cmd.Flags().Lookup(configFlag.flag) != nil {
		err = fmt.Errorf("%w; --config names a configuration", err)
	}
	return err
}

// oneArgument checks that a command has the one argument that it needs.
func oneArgument(name, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("%s is missing; write, for example, %s", name, example)
		case 1:
			return nil
		}
		return unexpected(args[1])
	}
}

func unexpected(argument string) error {
	return fmt.Errorf("unexpected argument %q", argument)
}

// printError prints err unless it is nil. The errors of a configuration begin with their
// position (FILE:LINE:COL), all others with the program's name.
func printError(stderr io.Writer, err error) {
	var invalid strictyaml.Errors
	switch {
	case errors.As(err, &invalid):
		fmt.Fprintln(stderr, printable.Text(invalid.Error()))
	case err != nil:
		fmt.Fprintf(stderr, "robotsproxy: %s\n", printable.Text(err.Error()))
	}
}

// withExitCode adapts a command's function to cobra. An error without an exit code
// gets one: exitUsage if the configuration is invalid, else exitFailed.
func withExitCode(do func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := do(cmd, args)
		switch {
		case err == nil, errors.As(err, new(exit)):
			return err
		case errors.As(err, new(strictyaml.Errors)):
			return exit{exitUsage, err}
		default:
			return exit{exitFailed, err}
		}
	}
}
