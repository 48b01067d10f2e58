package admin

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/report"
)

// questionOf returns what a request asks a report about.
func questionOf(r *http.Request) report.Question {
	q := r.URL.Query()
	return report.Question{Since: q.Get("since"), Until: q.Get("until"), Origin: q.Get("origin"), Identity: q.Get("identity")}
}

// makeReport makes a report, one at a time: it reads all counts of its period.
func (a *Admin) makeReport(ctx context.Context, scope report.Scope) (*report.Report, error) {
	select {
	case a.reporting <- struct{}{}:
		defer func() { <-a.reporting }()
		return a.setup.Report(ctx, scope)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// report responds with a report, as JSON or as a page that is one file.
func (a *Admin) report(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format != "" && format != "json" && format != "html" {
		writeProblem(w, http.StatusBadRequest, "format: write json or html")
		return
	}
	scope, err := questionOf(r).Scope(a.now())
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
	writePage(w, http.StatusOK, report.PageCSP+"; frame-ancestors 'none'", page.Bytes())
}

// reportPageCSP lets the page have its styles, and a form that asks for another report.
var reportPageCSP = "default-src 'none'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; style-src 'self' " + report.StyleSource

// reportView is what dashboard/report.html shows.
type reportView struct {
	Since, Until     string // days, or what the request has in their place
	Origin, Identity string
	Identities       []string
	Style            template.CSS
	Body             template.HTML // the report; "" if there is none
	Problem          string        // why there is none
	JSON, File       string        // addresses of the same report
	FileName         string
}

// reportPage serves the page at /report: a form and the report that it asks for. It needs no
// script.
func (a *Admin) reportPage(w http.ResponseWriter, r *http.Request) {
	q := questionOf(r)
	view := reportView{Since: q.Since, Until: q.Until, Origin: q.Origin, Identity: q.Identity, Style: report.Style}
	status := http.StatusOK
	scope, err := q.Scope(a.now())
	if err != nil {
		status = http.StatusBadRequest
	} else {
		view.Since, view.Until, view.Origin = scope.From.String(), scope.Until.String(), scope.Origin
		if err = a.fillIn(r.Context(), &view, scope); err != nil {
			status = http.StatusInternalServerError
		}
	}
	if err != nil {
		view.Problem = printable.Line(err.Error())
	}
	view.Identities = a.identityNames(q.Identity)
	var page bytes.Buffer
	if err := dashboardPages.ExecuteTemplate(&page, "report.html", view); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writePage(w, status, reportPageCSP, page.Bytes())
}

// fillIn makes the report that a view shows.
func (a *Admin) fillIn(ctx context.Context, v *reportView, scope report.Scope) error {
	made, err := a.makeReport(ctx, scope)
	if err != nil {
		return err
	}
	query := url.Values{"since": {v.Since}, "until": {v.Until}}
	for name, value := range map[string]string{"origin": v.Origin, "identity": v.Identity} {
		if value != "" {
			query.Set(name, value)
		}
	}
	v.JSON = "/api/v1/report?" + query.Encode()
	query.Set("format", "html")
	v.File = "/api/v1/report?" + query.Encode()
	v.FileName = "robotsproxy-" + v.Since + "-" + v.Until
	v.Body, err = made.Body()
	return err
}

// identityNames returns the names of all identities, and one that may be none of them.
func (a *Admin) identityNames(other string) (names []string) {
	for name := range a.setup.Gate.Identities() {
		names = append(names, name)
	}
	if other != "" && !slices.Contains(names, other) {
		names = append(names, other)
	}
	return names
}

// writePage responds with a page that nobody may keep, since it shows what is known now.
func writePage(w http.ResponseWriter, status int, csp string, page []byte) {
	setPageHeader(w.Header(), ".html", csp)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(page) // an error means that the client has left
}
