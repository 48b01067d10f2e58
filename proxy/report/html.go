package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"robotsproxy/internal/printable"
	"robotsproxy/robots/store/counts"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"number": number}).Parse(pageText))

// Style is the style sheet of reports. It styles only what is in an element of the class report.
//
//go:embed report.css
var Style template.CSS

// StyleSource allows Style, in a page, in its Content-Security-Policy.
var StyleSource = fmt.Sprintf("'sha256-%s'", sum(Style))

func sum(text template.CSS) string {
	hash := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(hash[:])
}

// PageCSP is the Content-Security-Policy of the page that [Report.HTML] writes: it needs its
// style and nothing else.
var PageCSP = "default-src 'none'; form-action 'none'; base-uri 'none'; style-src " + StyleSource

// maxPageLines is how many lines of each list the page has: a printer takes it too.
const maxPageLines = 50

// HTML writes the report as one page that needs no other file and no network. Long lists are
// cut: JSON has the whole.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r.view()) }

// Body returns what [Report.HTML] has in its body, for a page that has Style.
func (r *Report) Body() (template.HTML, error) {
	var body strings.Builder
	err := page.ExecuteTemplate(&body, "body", r.view())
	return template.HTML(body.String()), err
}

func (r *Report) view() pageView {
	view := pageView{CSP: PageCSP, Style: Style, Title: printable.Line(r.Title()), Totals: r.Totals.lines(), Chart: r.chart()}
	for _, note := range r.Notes() {
		view.Notes = append(view.Notes, printable.Line(note))
	}
	for _, s := range r.sections() {
		view.Sections = append(view.Sections, s.view())
	}
	return view
}

// A pageView is what the template shows. Its texts show what is invisible.
type pageView struct {
	CSP      string
	Style    template.CSS
	Title    string
	Notes    []string
	Totals   []totalLine
	Chart    *chart
	Sections []sectionView
}

type sectionView struct {
	Title   string
	Columns []cellView
	Rows    []rowView
	Bars    bool   // the rows have them
	More    string // how many rows are left out; "" for none
}

type rowView struct {
	Cells []cellView
	Bar   []rowPart
}

// A rowPart is one outcome in the bar of a row. X and Width are in percent of the longest bar.
type rowPart struct {
	Class    string
	X, Width float64
}

type cellView struct {
	Text   string
	Number bool
}

// view returns the section with at most maxPageLines rows.
func (s *section) view() sectionView {
	cells := func(row []string) (cells []cellView) {
		for i, text := range row {
			cells = append(cells, cellView{printable.Line(text), slices.Contains(s.Numbers, i)})
		}
		return cells
	}
	v := sectionView{Title: s.Title, Columns: cells(s.Columns), Bars: s.Weights != nil}
	for i, row := range s.Rows[:min(len(s.Rows), maxPageLines)] {
		r := rowView{Cells: cells(row)}
		if s.Weights != nil {
			percent := func(n int64) float64 { return 100 * float64(n) / float64(max(s.Weights[0].all(), 1)) }
			refused, would := percent(s.Weights[i].refused), percent(s.Weights[i].wouldBeRefused)
			r.Bar = []rowPart{{"refused", 0, refused}, {"would", refused, would}}
		}
		v.Rows = append(v.Rows, r)
	}
	if more := len(s.Rows) - maxPageLines; more > 0 {
		v.More = number(int64(more))
	}
	return v
}

// A chart draws the requests of each day. It is stretched to the width that there is.
type chart struct {
	Width, Height int
	Most          string // requests of the highest bar
	First, Last   counts.Day
	Bars          []bar
}

type bar struct {
	X, Width float64
	Title    string
	Parts    []part
	Missing  bool // no proxy ran
}

// A part of a bar is one outcome.
type part struct {
	Class     string
	Y, Height float64
}

// chart returns nil if there is nothing to draw.
func (r *Report) chart() *chart {
	const width, height = 900, 180
	most := r.busiest().Requests
	if most == 0 || len(r.Days) < 2 {
		return nil
	}
	c := &chart{Width: width, Height: height, Most: number(most), First: r.From, Last: r.Until}
	step := float64(width) / float64(len(r.Days))
	for i, d := range r.Days {
		b := bar{X: float64(i) * step, Width: step * 0.85, Title: d.title(), Missing: !d.Ran}
		y := float64(height)
		for _, outcome := range []struct {
			class string
			count int64
		}{{"allowed", d.Allowed}, {"would", d.WouldBeRefused}, {"refused", d.Refused}, {"pace", d.RefusedForPace}} {
			if outcome.count == 0 {
				continue
			}
			h := float64(height) * float64(outcome.count) / float64(most)
			y -= h
			b.Parts = append(b.Parts, part{outcome.class, y, h})
		}
		c.Bars = append(c.Bars, b)
	}
	return c
}

// title says in words what the bar of a day shows.
func (d *Day) title() string {
	if !d.Ran {
		return d.Day.String() + ": no proxy ran, or kept counts"
	}
	return d.Day.String() + ": " + plural(d.Requests, "request") + ", " + number(d.Refused) + " refused, " +
		number(d.WouldBeRefused) + " would be refused, " + number(d.RefusedForPace) + " refused for pace, " + duration(d.PacedSeconds) + " of waiting for turns"
}
