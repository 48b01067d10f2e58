package robots

import (
	"bytes"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestVerdicts reads testdata/verdicts. Each file has a robots.txt and lines of verdicts: the
// verdict, the line of the rule that decides ("-" for none), the product tokens ("-" for none)
// and the path.
func TestVerdicts(t *testing.T) {
	for name, archive := range verdictFiles(t) {
		var file, stating *File
		for _, part := range archive.Files {
			switch part.Name {
			case "robots.txt":
				file, stating = Parse(part.Data), Parse(statePreferences(part.Data))
			case "verdicts":
				for line := range strings.Lines(string(part.Data)) {
					t.Run(filepath.Base(name)+"/"+strings.Join(strings.Fields(line), "_"), func(t *testing.T) {
						checkVerdictLine(t, file, line, func(number int) int { return number })
						checkVerdictLine(t, stating, line, func(number int) int { return (number + 1) / 2 })
					})
				}
			case "sitemaps":
				if want := strings.Fields(string(part.Data)); !slices.Equal(file.Sitemaps(), want) {
					t.Errorf("%s: sitemaps %q, want %q", name, file.Sitemaps(), want)
				}
			default:
				t.Fatalf("%s has a part %q", name, part.Name)
			}
		}
	}
}

// verdictFiles reads testdata/verdicts, sorted by name.
func verdictFiles(t testing.TB) iter.Seq2[string, *txtar.Archive] {
	names, err := filepath.Glob("testdata/verdicts/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in testdata/verdicts: %v", err)
	}
	return func(yield func(string, *txtar.Archive) bool) {
		for _, name := range names {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !yield(name, archive) {
				return
			}
		}
	}
}

// statePreferences returns the same robots.txt with a line about use after each line. None of
// them may change what the rules say.
func statePreferences(body []byte) []byte {
	lines := []string{"Content-Signal: ai-train=no", "Content-Usage: /a train-ai=n, search=y", "Content-Signal: * search=yes", "Content-Usage: NO=", "License: https://example.com/"}
	var stating bytes.Buffer
	eachLine(string(body), func(number int, line string) {
		stating.WriteString(line + "\n" + lines[number%len(lines)] + "\n")
	})
	return stating.Bytes()
}

// checkVerdictLine checks a line of verdicts. original returns the number that a line of the
// file has there.
func checkVerdictLine(t *testing.T, file *File, line string, original func(number int) int) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		t.Fatalf("%q has %d fields, want 4", line, len(fields))
	}
	var tokens []string
	if fields[2] != "-" {
		tokens = strings.Split(fields[2], ",")
	}
	verdict, decider := "allowed", "-"
	if group, _ := file.Group(tokens); group != nil {
		if rule, matches := group.Match(fields[3]); matches {
			decider = strconv.Itoa(original(rule.Line))
			if !rule.Allow {
				verdict = "disallowed"
			}
		}
	}
	if verdict != fields[0] || decider != fields[1] {
		t.Errorf("%s by line %s, want %s by line %s", verdict, decider, fields[0], fields[1])
	}
}
