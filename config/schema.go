package config

import (
	"encoding/json"
	"regexp"
	"strings"

	"robotsproxy/config/strictyaml"
	"robotsproxy/configs"
)

// Schema returns a JSON Schema of configurations, by which editors complete keys and words and
// mark mistakes. The descriptions are the comments of the full example.
func Schema() ([]byte, error) {
	comments := commentsOf(configs.Full)
	schema := strictyaml.Schema(Default(), func(path string) string {
		for section := path; section != ""; section = section[:max(0, strings.LastIndexByte(section, '.'))] {
			if text := comments[section]; text != "" {
				return text
			}
		}
		return ""
	})
	schema["title"] = "robotsproxy.yaml"
	return json.MarshalIndent(schema, "", "  ")
}

var keyLine = regexp.MustCompile(`^( *)([a-z0-9_]+):\s`)

var rightEdge = regexp.MustCompile(` {3,}`)

// commentsOf returns the comment above each key of the full example, by key path. A comment
// belongs to all keys between it and the next empty line.
func commentsOf(text string) map[string]string {
	comments := map[string]string{}
	var sections []string // the path to the present line
	var comment []string
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		key := keyLine.FindStringSubmatch(line)
		switch {
		case trimmed == "":
			comment = nil
		case strings.HasPrefix(trimmed, "#"):
			// Examples and flags stand at the right edge there.
			comment = append(comment, strings.TrimPrefix(rightEdge.ReplaceAllString(strings.TrimPrefix(trimmed, "#"), " "), " "))
		case key != nil:
			depth := min(len(key[1])/2, len(sections))
			sections = append(sections[:depth], key[2])
			comments[strings.Join(sections, ".")] = strings.Join(comment, "\n")
			if strings.HasSuffix(trimmed, ":") {
				comment = nil // it is the section's, or the list's
			}
		}
	}
	return comments
}
