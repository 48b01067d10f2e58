package admin

import (
	"bytes"
	"context"
	"net/http"

	"robotsproxy/proxy/admin/dashboard"
	"robotsproxy/proxy/report"
)

// makeReport makes a report.
func (a *Admin) makeReport(ctx context.Context, scope report.Scope) (made *report.Report, err error) {
	err = a.oneAtATime(ctx, func() error {
		made, err = a.setup.Report(ctx, scope)
		return err
	})
	return made, err
}

// oneAtATime calls read, which reads all that the store has of a period, when no other request
// does so.
func (a *Admin) oneAtATime(ctx context.Context, read func() error) error {
	select {
	case a.reporting <- struct{}{}:
		defer func() { <-a.reporting }()
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report responds with a report, as JSON or as a page that is one file.
func (a *Admin) report(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "html" {
		writeProblem(w, http.StatusBadRequest, "format: write json or html")
		return
	}
	scope, err := report.QuestionOf(r.URL.Query()).Scope(a.now())
	if err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	made, err := a.makeReport(r.Context(), scope)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	if format != "html" {
		writeJSON(w, http.StatusOK, "application/json", made)
		return
	}
	var page bytes.Buffer
	if err := made.HTML(&page); err != nil {
		writeProblem(w, http.StatusInternalServerError, err.Error())
		return
	}
	dashboard.WritePage(w, http.StatusOK, report.PageCSP+"; frame-ancestors 'none'", page.Bytes())
}
