package report_test

import (
	"strings"
	"testing"
	"time"

	"robotsproxy/proxy/report"
	"robotsproxy/robots/store/counts"
)

func TestQuestions(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 59, 0, 0, time.UTC)
	for _, test := range []struct {
		question report.Question
		want     report.Scope
		err      string
	}{
		{report.Question{}, report.Scope{Period: counts.Period{From: jan(2), Until: jan(31)}}, ""},
		{report.Question{Since: "7d", Until: "1d"}, report.Scope{Period: counts.Period{From: jan(24), Until: jan(30)}}, ""},
		{report.Question{Since: "2026-01-05", Until: "2026-01-05"}, report.Scope{Period: counts.Period{From: jan(5), Until: jan(5)}}, ""},
		{report.Question{Since: "1d", Origin: "HTTPS://Example.com:443/a?b", Identity: "images"},
			report.Scope{Period: counts.Period{From: jan(31), Until: jan(31)}, Origin: "https://example.com", Identity: "images"}, ""},
		{report.Question{Since: "2026-02-30"}, report.Scope{}, "since: "},
		{report.Question{Since: "-1d"}, report.Scope{}, "since: "},
		{report.Question{Since: "0d"}, report.Scope{}, "since: "},
		{report.Question{Since: "2026-01-06", Until: "2026-01-05"}, report.Scope{}, "since: "},
		{report.Question{Since: "10001d"}, report.Scope{}, "since: "},
		{report.Question{Until: "yesterday"}, report.Scope{}, "until: "},
		{report.Question{Origin: "example.com"}, report.Scope{}, "origin: example.com"},
	} {
		switch got, err := test.question.Scope(now); {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%+v: got %+v, %v", test.question, got, err)
		case test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)):
			t.Errorf("%+v: the error is %v", test.question, err)
		}
	}
}
