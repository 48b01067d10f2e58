package answer

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/http"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"robotsproxy/internal/printable"
	"robotsproxy/proxy/gate"
)

// view is what the text and the page show.
type view struct {
	Name    string // of this deployment
	Status  int
	Title   string // of the status
	Details string
	Facts   []fact // what a reader needs to look the rule up
	Advice  string
}

type fact struct{ Label, Value string }

// problem is an answer as problem+json (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	*gate.Verdict
}

// render writes an answer in a format.
func (a *Answer) render(name string, f format) (contentType string, body []byte) {
	title := http.StatusText(a.Status)
	if f == asProblem {
		body, _ = printable.Marshal(problem{"about:blank", title, a.Status, a.Details, a.Verdict})
		return "application/problem+json", body
	}
	var b bytes.Buffer
	v := view{name, a.Status, title, printable.Line(a.Details), a.facts(), a.Advice}
	if f == asHTML {
		page.Execute(&b, v)
		return "text/html; charset=utf-8", b.Bytes()
	}
	fmt.Fprintf(&b, "%d %s: %s\n", v.Status, v.Title, v.Details)
	if len(v.Facts) > 0 {
		b.WriteByte('\n')
	}
	for _, f := range v.Facts {
		fmt.Fprintf(&b, "%-11s %s\n", f.Label+":", f.Value)
	}
	if v.Advice != "" {
		fmt.Fprintf(&b, "\n%s", v.Advice)
	}
	fmt.Fprintf(&b, "\nThis answer is from the proxy %s, not from the site.\n", v.Name)
	return "text/plain; charset=utf-8", b.Bytes()
}

func (a *Answer) facts() []fact {
	v := a.Verdict
	if v == nil {
		return nil
	}
	facts := []fact{{"URL", v.URL}, {"Agent", v.Agent}, {"Identity", v.Identity}}
	if v.RobotsURL != "" {
		facts = append(facts, fact{"robots.txt", v.RobotsURL})
	}
	if v.Rule != "" {
		facts = append(facts, fact{fmt.Sprintf("Line %d", v.Line), v.Rule})
	}
	if held := v.HeldWhy(); held != "" {
		facts = append(facts, fact{"Held", held})
	}
	for i := range facts {
		facts[i].Value = printable.Line(facts[i].Value)
	}
	return facts
}

//go:embed answer.html
var pageHTML string

var page = template.Must(template.New("answer").Parse(pageHTML))
