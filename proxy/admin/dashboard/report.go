package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/report"
)

// reportPageCSP lets the page have its styles, and a form that asks for another report.
var reportPageCSP = "default-src 'none'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; style-src 'self' " + report.StyleSource

// reportView is what report.html shows.
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

// report serves the page at /report: a form and the report that it asks for. It needs no
// script.
func (s Site) report(w http.ResponseWriter, r *http.Request) {
	q := report.QuestionOf(r.URL.Query())
	view := reportView{Since: q.Since, Until: q.Until, Origin: q.Origin, Identity: q.Identity, Style: report.Style}
	status := http.StatusOK
	scope, err := q.Scope(s.Now())
	if err != nil {
		status = http.StatusBadRequest
	} else {
		view.Since, view.Until, view.Origin = scope.From.String(), scope.Until.String(), scope.Origin
		if err = s.fillIn(r.Context(), &view, scope); err != nil {
			status = http.StatusInternalServerError
		}
	}
	if err != nil {
		view.Problem = printable.Line(err.Error())
	}
	view.Identities = s.Identities()
	if q.Identity != "" && !slices.Contains(view.Identities, q.Identity) {
		view.Identities = append(view.Identities, q.Identity)
	}
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, "report.html", view); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	WritePage(w, status, reportPageCSP, page.Bytes())
}

// fillIn makes the report that a view shows.
func (s Site) fillIn(ctx context.Context, v *reportView, scope report.Scope) error {
	made, err := s.Report(ctx, scope)
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
