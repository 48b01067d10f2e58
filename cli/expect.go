package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/internal/enum"
	"robotsproxy/internal/loopback"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
)

// An expectation is a row of the table that --expect names.
type expectation struct {
	line   int
	agent  string // a product token, or a whole User-Agent
	target robots.Target
	want   decision.Judgment
}

// expect judges each row of the table that the flags name, and prints the rows whose verdict
// is another. It prints what is odd in the file that --robots names, too.
func expect(cmd *cobra.Command, cfg config.Config, flags checkFlags) error {
	rows, err := readExpectations(flags.expect, cmd.InOrStdin())
	if flags.expect == "-" {
		flags.expect = "standard input"
	}
	if err != nil {
		return exit{exitUsage, err}
	}
	g, closeGate, err := openCheckGate(cmd, cfg, flags)
	if err != nil {
		return exit{exitUsage, err}
	}
	defer closeGate()
	ctx := loopback.With(cmd.Context(), loopback.Here)
	failed := 0
	for _, row := range rows {
		v, err := g.Decide(ctx, gate.Ask{Target: row.target, Identity: flags.identity, Agents: []string{identity.TokenOf(row.agent)}, Use: flags.use})
		if err != nil {
			return exit{exitUsage, err}
		}
		if refuses(v) != (row.want == decision.Disallowed) {
			failed++
		}
		if err := printOutcome(cmd.OutOrStdout(), row, v, flags); err != nil {
			return exit{exitUsage, err}
		}
	}
	if !flags.json {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d verdicts, %d not as expected\n", flags.expect, len(rows), failed)
	}
	if failed > 0 {
		return exit{code: exitFailed}
	}
	return nil
}

// printOutcome prints a row whose verdict is not the expected one or, as JSON, every row.
func printOutcome(w io.Writer, row expectation, v gate.Verdict, flags checkFlags) error {
	if flags.json {
		return printJSON(w, struct {
			gate.Verdict
			Expected decision.Judgment `json:"expected"`
		}{v, row.want})
	}
	if refuses(v) == (row.want == decision.Disallowed) {
		return nil
	}
	who, why := verdictText(v, flags)
	_, err := fmt.Fprintf(w, "%s:%d: %s is %s, and %s is expected\n           for %s: %s\n",
		flags.expect, row.line, v.URL, v.Judgment, row.want, who, why)
	return err
}

// readExpectations reads a table from the named file or, if name is -, from stdin. Each row is
// AGENT URL VERDICT. Empty lines, and those that begin with #, are skipped. An error joins all
// faults.
func readExpectations(name string, stdin io.Reader) ([]expectation, error) {
	from, err := openInput(name, stdin)
	if err != nil {
		return nil, fmt.Errorf("reading the expected verdicts: %w", err)
	}
	defer from.Close()
	var rows []expectation
	var faults []error
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		row, err := parseExpectation(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", name, number, err))
			continue
		}
		row.line = number
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("reading the expected verdicts: %w", err))
	}
	if len(rows) == 0 && faults == nil {
		faults = append(faults, fmt.Errorf("%s has no row; write AGENT URL VERDICT, for example ExampleBot https://example.com/private/ disallowed", name))
	}
	return rows, errors.Join(faults...)
}

func parseExpectation(text string) (expectation, error) {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return expectation{}, errors.New("a row is AGENT URL VERDICT, for example ExampleBot https://example.com/private/ disallowed")
	}
	last := len(fields) - 1
	row := expectation{agent: strings.Join(fields[:last-1], " ")} // a User-Agent has spaces
	var err error
	if row.target, err = parseURL(fields[last-1]); err != nil {
		return expectation{}, fmt.Errorf("%s: %w", fields[last-1], err)
	}
	if err := enum.Unmarshal(&row.want, []byte(fields[last]), decision.Allowed, decision.Disallowed); err != nil {
		return expectation{}, err
	}
	return row, nil
}

// lint prints what is odd in the robots.txt in the named file.
func lint(w io.Writer, name string, body []byte) {
	for _, f := range robots.Lint(body) {
		fmt.Fprintf(w, "%s:%d: warning: %s\n", name, f.Line, printable.Line(f.Message))
	}
}
