package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/decision"
)

// maxTextLines is how many lines of each list the text has, so that it stays a page.
const maxTextLines = 10

// Text writes the report as a page for a terminal. Long lists are cut: JSON has the whole.
func (r *Report) Text(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n\n", r.Title(), strings.Join(r.Notes(), "\n"))
	r.textTotals(&b)
	for _, s := range r.sections() {
		s.text(&b, maxTextLines)
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// Title says what the report is about.
func (r *Report) Title() string {
	title := fmt.Sprintf("Requests from %s to %s (%s, UTC)", r.From, r.Until, plural(int64(len(r.Days)), "day"))
	if r.Origin != "" {
		title += " to " + r.Origin
	}
	if r.Identity != "" {
		title += " of the identity " + r.Identity
	}
	return title
}

// Notes say what the counts do not have: days without the proxy, and requests that could not
// be assigned.
func (r *Report) Notes() (notes []string) {
	runs := r.DaysWithout()
	if len(runs) == 0 {
		notes = append(notes, "A proxy ran on every day.")
	} else {
		var days int64
		var names []string
		for _, run := range runs {
			days += int64(run.Until-run.From) + 1
			name := run.From.String()
			if run.Until > run.From {
				name += " to " + run.Until.String()
			}
			names = append(names, name)
		}
		if more := len(names) - maxTextLines; more > 0 {
			names = append(names[:maxTextLines], fmt.Sprintf("and %d more times", more))
		}
		notes = append(notes, fmt.Sprintf("On %s no proxy ran, or kept counts: %s.", plural(days, "day"), strings.Join(names, ", ")))
	}
	if r.Unassigned > 0 {
		notes = append(notes, fmt.Sprintf("Besides, there were %s to sites that were not told apart, on days with too many different decisions.", plural(r.Unassigned, "request")))
	}
	return notes
}

func (r *Report) textTotals(b *bytes.Buffer) {
	lines := r.Totals.lines()
	width := len(number(r.Totals.Requests))
	for _, t := range lines {
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("  %*s  %-16s  %s", width, number(t.Count), t.Name, t.About), " "))
	}
	if bars := r.sparkline(); bars != "" {
		fmt.Fprintf(b, "\n  by day  %s  (at most %s)\n", bars, number(r.busiest().Requests))
	}
}

// A totalLine is one of the totals with its explanation.
type totalLine struct {
	Count       int64
	Name, About string
}

// lines are the totals in the order in which people read them, without what never happened.
func (t Totals) lines() []totalLine {
	lines := []totalLine{
		{t.Requests, "requests", ""},
		{t.Allowed, "allowed", ""},
		{t.Refused, "refused", ""},
		{t.WouldBeRefused, "would be refused", "they were let through, as a mode is report"},
		{t.RefusedForPace, "refused for pace", "their turn would have come too late"},
		{t.Paced, "paced", "they waited " + duration(t.PacedSeconds) + " for their turns, all together"},
		{t.edge(), "turned away", "by sites whose robots.txt allows them: " + t.edgeKinds()},
	}
	return slices.DeleteFunc(lines, func(l totalLine) bool { return l.Count == 0 && l.About != "" })
}

// edgeKinds says how many requests were turned away in which way.
func (t Totals) edgeKinds() string {
	var kinds []string
	for _, k := range []struct {
		count int64
		words string
	}{{t.Challenged, "challenged"}, {t.TurnedAway, "refused (401, 403, 429)"}, {t.Priced, "asked to pay (402)"}} {
		if k.count > 0 {
			kinds = append(kinds, number(k.count)+" "+k.words)
		}
	}
	return strings.Join(kinds, ", ")
}

// busiest is the day with the most requests.
func (r *Report) busiest() Day {
	return slices.MaxFunc(r.Days, func(a, b Day) int { return cmp.Compare(a.Requests, b.Requests) })
}

// maxSparkline is how many days there may be to draw one character for each.
const maxSparkline = 62

// sparkline draws the requests of each day, "·" on a day without a proxy; "" if there are too
// many days, or no requests.
func (r *Report) sparkline() string {
	if len(r.Days) > maxSparkline || r.Totals.Requests == 0 || len(r.Days) < 2 {
		return ""
	}
	heights := []rune("▁▂▃▄▅▆▇█")
	most := r.busiest().Requests
	var bars strings.Builder
	for _, d := range r.Days {
		switch {
		case !d.Ran:
			bars.WriteRune('·')
		case d.Requests == 0:
			bars.WriteRune('_')
		default:
			bars.WriteRune(heights[(d.Requests*int64(len(heights))-1)/most])
		}
	}
	return bars.String()
}

// A section is one list of the report as people read it.
type section struct {
	Title   string
	Columns []string
	Rows    [][]string
	Numbers []int    // the columns that have numbers
	Weights []weight // of the rows, the heaviest first, where a chart helps; else nil
}

// A weight is how many requests a row is about.
type weight struct{ refused, wouldBeRefused int64 }

func (w weight) all() int64 { return w.refused + w.wouldBeRefused }

// sections are the lists that have something to say.
func (r *Report) sections() []section {
	var all []section
	add := func(s section) {
		if len(s.Rows) > 0 {
			all = append(all, s)
		}
	}
	add(r.refusalSection())
	add(r.unreachableSection())
	add(r.edgeSection())
	add(r.preferenceSection())
	add(r.overrideSection())
	add(r.changeSection())
	if len(r.Identities) > 1 {
		rows := make([][]string, len(r.Identities))
		for i, id := range r.Identities {
			rows[i] = append(id.cells(), id.Identity)
		}
		add(section{Title: "By identity", Columns: append(totalsColumns(), "identity"), Rows: rows, Numbers: []int{0, 1, 2, 3, 4, 5}})
	}
	if r.Origin == "" {
		rows := make([][]string, len(r.Origins))
		for i, o := range r.Origins {
			rows[i] = append(o.cells(), site(o.Origin))
		}
		add(section{Title: "By site", Columns: append(totalsColumns(), "site"), Rows: rows, Numbers: []int{0, 1, 2, 3, 4, 5}})
	}
	return all
}

func totalsColumns() []string {
	return []string{"requests", "allowed", "would be refused", "refused", "for pace", "paced time"}
}

func (t Totals) cells() []string {
	return []string{number(t.Requests), number(t.Allowed), number(t.WouldBeRefused), number(t.Refused), number(t.RefusedForPace), duration(t.PacedSeconds)}
}

func (r *Report) refusalSection() section {
	s := section{Title: "Refused, by rule and site", Columns: []string{"refused", "would be refused", "site", "why"}, Numbers: []int{0, 1}}
	for _, f := range r.Refusals {
		s.Weights = append(s.Weights, weight{f.Refused, f.WouldBeRefused})
		s.Rows = append(s.Rows, []string{number(f.Refused), number(f.WouldBeRefused), site(f.Origin), f.why()})
	}
	return s
}

// why says in a few words why requests were refused.
func (f *Refusal) why() string {
	switch {
	case f.Reason == ForPace:
		return "its turn would have come too late"
	case f.Reason == string(decision.Overridden) && f.Rule != "":
		return f.Rule + " (of an override)"
	}
	return cmp.Or(f.Rule, f.Preference, decision.Reason(f.Reason).Phrase())
}

func (r *Report) unreachableSection() section {
	s := section{Title: "Sites whose robots.txt could not be had", Columns: []string{"requests", "days", "site", "because"}, Numbers: []int{0, 1}}
	for _, u := range r.Unreachable {
		s.Rows = append(s.Rows, []string{number(u.Requests), number(int64(u.Days)), site(u.Origin), strings.Join(u.Causes, "; ")})
	}
	return s
}

// edgeSection has the sites that turned most requests away first.
func (r *Report) edgeSection() section {
	s := section{Title: "Turned away by sites whose robots.txt allows it", Columns: []string{"challenged", "refused", "asked to pay", "site"}, Numbers: []int{0, 1, 2}}
	origins := slices.DeleteFunc(slices.Clone(r.Origins), func(o Origin) bool { return o.edge() == 0 })
	slices.SortStableFunc(origins, func(a, b Origin) int { return cmp.Compare(b.edge(), a.edge()) })
	for _, o := range origins {
		s.Rows = append(s.Rows, []string{number(o.Challenged), number(o.TurnedAway), number(o.Priced), site(o.Origin)})
	}
	return s
}

func (r *Report) preferenceSection() section {
	s := section{Title: "Preferences of sites about use", Columns: []string{"refused", "would be refused", "site", "what it says"}, Numbers: []int{0, 1}}
	for _, p := range r.Preferences {
		s.Rows = append(s.Rows, []string{number(p.Refused), number(p.WouldBeRefused), site(p.Origin), cmp.Or(p.Preference, "in a tunnel that is not read")})
	}
	return s
}

func (r *Report) overrideSection() section {
	s := section{Title: "Overrides", Columns: []string{"requests", "verdict", "site", "reason given"}, Numbers: []int{0}}
	for _, o := range r.Overrides {
		s.Rows = append(s.Rows, []string{number(o.Requests), o.Verdict, site(o.Origin), cmp.Or(o.Reason, "none")})
	}
	return s
}

// changeSection has a row for each origin, the one that changed most first.
func (r *Report) changeSection() section {
	byOrigin := map[string][]Change{}
	for _, c := range r.Changes {
		byOrigin[c.Origin] = append(byOrigin[c.Origin], c)
	}
	origins := make([]string, 0, len(byOrigin))
	for origin := range byOrigin {
		origins = append(origins, origin)
	}
	slices.SortFunc(origins, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byOrigin[b]), len(byOrigin[a])), cmp.Compare(a, b))
	})
	s := section{Title: "Changes of robots.txt (robotsproxy history SITE shows them)", Columns: []string{"changes", "last (UTC)", "site", "now"}, Numbers: []int{0}}
	for _, origin := range origins {
		changes := byOrigin[origin]
		last := changes[len(changes)-1]
		s.Rows = append(s.Rows, []string{number(int64(len(changes))), last.Time.Format("2006-01-02 15:04"), origin,
			strings.TrimSpace(fmt.Sprintf("status %d %.12s", last.Status, last.SHA256))})
	}
	return s
}

// text writes at most so many rows.
func (s *section) text(b *bytes.Buffer, most int) {
	fmt.Fprintf(b, "\n%s\n", s.Title)
	widths := make([]int, len(s.Columns))
	rows := append([][]string{s.Columns}, s.Rows[:min(len(s.Rows), most)]...)
	for i, row := range rows {
		for j := range row {
			if i > 0 {
				row[j] = printable.Cut(printable.Line(row[j]), maxCell)
			}
			widths[j] = max(widths[j], len([]rune(row[j])))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-len([]rune(cell)))
			if slices.Contains(s.Numbers, j) {
				line.WriteString("  " + pad + cell)
			} else {
				line.WriteString("  " + cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if more := len(s.Rows) - most; more > 0 {
		fmt.Fprintf(b, "  and %s more; --json has all\n", number(int64(more)))
	}
}

// maxCell bounds what a terminal shows of a text, in octets.
const maxCell = 80

// site names an origin.
func site(origin string) string { return cmp.Or(origin, "(sites not told apart)") }

// number writes a number with its thousands apart.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// duration writes seconds as people read them.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d == 0:
		return "0s"
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if d >= time.Hour {
		text = d.Round(time.Minute).String()
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}
