package evidence

import (
	"bytes"
	_ "embed"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"

	"robotsproxy/internal/printable"
)

//go:embed readme.txt
var readmeText string

var readmeTemplate = template.Must(template.New(readmeFile).Parse(readmeText))

// readme returns the file that says what the others are, and how to check them.
func (a *Archive) readme(found *Found) ([]byte, error) {
	about := struct {
		*Archive
		*Found
		Logs    string // the names of the logs, without their folders; "": counts
		IsLog   bool
		Decided string // the file
	}{Archive: a, Found: found, Decided: a.Source.file()}
	if log, is := a.Source.(Log); is {
		about.IsLog = true
		var names []string
		for _, name := range log.Names {
			names = append(names, printable.Line(name[strings.LastIndexAny(name, `/\`)+1:]))
		}
		about.Logs = strings.Join(names, ", ")
	}
	var text bytes.Buffer
	err := readmeTemplate.Execute(&text, about)
	return text.Bytes(), err
}
