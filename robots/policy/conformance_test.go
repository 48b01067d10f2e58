package policy

import (
	"path/filepath"
	"strings"
	"testing"

	"robotsproxy/internal/conformancetest"
)

// statusRow says what a specification or a suite expects of a fetch that ends with a status:
// a number, or a class of them such as 4xx. Rows about anything else, such as timeouts and
// lifetimes, are for TestAssess and the tests of package fetch.
type statusRow struct {
	ID, Source string
	Status     any
	Expected   string
	Conflict   string // why the source is at odds with RFC 9309
}

// statuses are the HTTP statuses that the row is about; none for other rows.
func (r statusRow) statuses() []int {
	switch status := r.Status.(type) {
	case float64:
		return []int{int(status)}
	case string:
		switch status {
		case "2xx":
			return []int{200, 203, 299}
		case "4xx", "400-499":
			return []int{400, 401, 403, 404, 410, 429, 451, 499}
		case "5xx", "500-599 and network errors":
			return []int{500, 503, 599}
		}
	}
	return nil
}

// outcome is what the row expects; None where it names no verdict.
func (r statusRow) outcome() Outcome {
	verdict, _, _ := strings.Cut(r.Expected, " ")
	switch strings.TrimSuffix(verdict, ":") {
	case "rules":
		return Rules
	case "allow_all", "unavailable":
		return Unavailable
	case "disallow_all", "unreachable":
		return Unreachable
	}
	return None
}

// check compares the row with the policy's defaults.
func (r statusRow) check(t *testing.T) {
	defaults := Defaults()
	for _, status := range r.statuses() {
		if got, _ := OutcomeOf(defaults.Meaning(status)); got != r.outcome() {
			t.Errorf("%s: status %d leads to %q, want %q", r.Source, status, got, r.outcome())
		}
	}
}

func TestStatusConformance(t *testing.T) {
	judged := map[Outcome]int{}
	for _, r := range conformancetest.Rows[statusRow](t, filepath.Join("testdata", "conformance", "http_status.jsonl")) {
		if r.Conflict != "" {
			continue // RFC 9309 decides
		}
		if len(r.statuses()) > 0 {
			t.Run(r.ID, r.check)
			judged[r.outcome()]++
		}
	}
	for _, outcome := range []Outcome{Rules, Unavailable, Unreachable} {
		if judged[outcome] == 0 {
			t.Errorf("no row has a status that leads to %q", outcome)
		}
	}
}
