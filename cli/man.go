package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"robotsproxy/configs"
	"robotsproxy/internal/build"
)

// manCommand writes the texts of --help and the full example as manual pages. It is for
// packagers.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write the manual pages into a folder",
		Example: `  robotsproxy man build/man   # robotsproxy*.1 and robotsproxy.yaml.5`,
		Args:    oneArgument("FOLDER", "build/man"),
		Hidden:  true,
		RunE: withExitCode(func(cmd *cobra.Command, args []string) error {
			if err := writeManual(cmd.Root(), args[0]); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			return nil
		}),
	}
}

// writeManual writes a page for each command, and one for the configuration.
func writeManual(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	version, _ := build.Version()
	source := "robotsproxy " + version
	if err := writePages(root, folder, source); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "robotsproxy.yaml.5"), configPage(source), 0o644)
}

func writePages(cmd *cobra.Command, folder, source string) error {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(sub, folder, source); err != nil {
				return err
			}
		}
	}
	var page bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: source, Manual: "robotsproxy"}, &page); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(folder, name), withSections(page.Bytes(), cmd), 0o644)
}

// withSections adds the sections that the library does not write to a command's page, before
// the last one.
func withSections(page []byte, cmd *cobra.Command) []byte {
	const last = "\n.SH SEE ALSO\n"
	body, seeAlso, found := bytes.Cut(page, []byte(last))
	var b bytes.Buffer
	b.Write(bytes.TrimRight(body, "\n"))
	b.WriteString("\n.SH EXIT STATUS\n" + exitStatus(cmd))
	if variables := variablesOf(cmd); len(variables) > 0 {
		b.WriteString(".SH ENVIRONMENT\nA flag takes precedence over its variable.\n")
		for _, v := range variables {
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff(v.name), roff(v.text))
		}
	}
	if cmd.Flags().Lookup("data-dir") != nil {
		b.WriteString(".SH FILES\n")
		for _, file := range dataFiles {
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff(file[0]), roff(file[1]))
		}
	}
	b.WriteString(last[1:])
	if found {
		b.Write(bytes.TrimRight(seeAlso, "\n"))
		b.WriteString(", ")
	}
	b.WriteString("robotsproxy.yaml(5)\n")
	return b.Bytes()
}

// dataFiles are what the data directory holds.
var dataFiles = [][2]string{
	{"~/.local/share/robotsproxy", "The data directory, unless --data-dir or data_dir names another, or XDG_DATA_HOME is set: then it is robotsproxy there. The files below are in it."},
	{"ca.pem", "The certificate of the CA by which the proxy reads inside TLS."},
	{"ca-key.pem", "Its key. Whoever has it can pose as any site to the clients that trust the CA."},
	{"policies.db", "Every robots.txt that was seen, and the counts of decisions (SQLite)."},
	{"trust/", "What clients need to trust the CA; everybody may read it."},
}

var exitCode = regexp.MustCompile(`(?s)(Exit code: |The exit code is\s)(.*?)(\n\n|$)`)

// exitStatus is what the help of a command says of its exit codes, or else what every command
// has: as a list, unless the help has it in prose.
func exitStatus(cmd *cobra.Command) string {
	text := "0 done, 1 failed while running, 2 bad usage or configuration."
	if said := exitCode.FindStringSubmatch(cmd.Long); said != nil {
		if text = said[2]; said[1] != "Exit code: " {
			return roff(said[1]+text) + "\n"
		}
	}
	list := regexp.MustCompile(`,\s([0-9])\s`).ReplaceAllString(", "+roff(text), "\n.TP\n$1\n")
	return strings.TrimPrefix(list, "\n") + "\n"
}

// A variable is one of the environment, as a page describes it.
type variable struct{ name, text string }

// variablesOf are those that a command's flags name in brackets.
func variablesOf(cmd *cobra.Command) (all []variable) {
	bracketed := regexp.MustCompile(` \[(ROBOTSPROXY_\w+)\]$`)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if name := bracketed.FindStringSubmatch(f.Usage); name != nil {
			all = append(all, variable{name[1], "--" + f.Name + ": " + strings.TrimSuffix(f.Usage, name[0])})
		}
	})
	slices.SortFunc(all, func(a, b variable) int { return strings.Compare(a.name, b.name) })
	return all
}

// configPage is the page about the configuration: the full example.
func configPage(source string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `.TH "ROBOTSPROXY.YAML" "5" "" "%s" "robotsproxy"
.SH NAME
robotsproxy.yaml \- configuration of robotsproxy
.SH SYNOPSIS
robotsproxy serve \-\-config robotsproxy.yaml
.br
robotsproxy validate robotsproxy.yaml
.SH DESCRIPTION
A YAML file. A file needs only the keys that it changes. \fBrobotsproxy validate\fP says what
is wrong with it, and \fBrobotsproxy schema\fP prints its JSON Schema for editors. The program
looks for no file by itself: name it with \-\-config or in ROBOTSPROXY_CONFIG.
.SH KEYS
Every key with its default:
.PP
.nf
%s.fi
.SH SEE ALSO
robotsproxy(1), robotsproxy\-serve(1), robotsproxy\-validate(1), robotsproxy\-schema(1)
`, source, roff(configs.Full))
	return b.Bytes()
}

// roff escapes a text for a manual page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		b.WriteString(line)
	}
	return b.String()
}
