package decision

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"robotsproxy/internal/printable"
)

// minShownWait is how long a request must have waited for its turn to have that shown.
const minShownWait = 100 * time.Millisecond

// Console returns a line of the log, in JSON, as people read it on a terminal, without a line
// feed: when, whether it was let through, the answer, the request, why, and the bot. With
// details, it names the version of robots.txt that decided too. Console returns false for a
// line that no Recorder has written.
func Console(line []byte, colour, details bool) (text string, ok bool) {
	var d struct {
		Message string
		Decision
	}
	if !bytes.Contains(line, []byte(`"message":"`+message+`"`)) || json.Unmarshal(line, &d) != nil || d.Message != message || d.URL == "" {
		return "", false
	}
	paint := painter(colour)
	status := fmt.Sprint(d.Status)
	if d.Status == 0 {
		status = "---" // the client has left
	}
	mark, tint, why := "✓", green, d.Why()
	switch {
	case d.Refused:
		mark, tint = "✗", red
	case d.Judgment != Allowed, d.WouldRefuse:
		mark, tint = "!", yellow
		why += ", let through (mode report)"
	}
	parts := []string{
		paint(dim, d.Time.Local().Format("15:04:05")) + " " + paint(tint, mark+" "+status) + " " + printable.Line(d.Method+" "+d.URL),
		paint(tint, printable.Line(why)),
		printable.Line(d.Agent),
	}
	if paced := time.Duration(d.PacedMS) * time.Millisecond; paced >= minShownWait && !d.Refused {
		parts = append(parts, fmt.Sprintf("after %v for its turn", paced.Round(minShownWait)))
	}
	switch {
	case d.Error != "" && d.Error != d.Cause:
		parts = append(parts, paint(red, printable.Line(d.Error)))
	case d.Edge != "":
		parts = append(parts, paint(yellow, printable.Line(d.Edge.Phrase(d.Price))))
	}
	if details && d.RobotsSHA256 != "" {
		parts = append(parts, paint(dim, "robots.txt "+printable.Line(d.RobotsSHA256)))
	}
	return strings.Join(parts, "  "), true
}

// The colours of a terminal (ECMA-48 8.3.117).
const (
	dim    = "90"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// painter returns what colours a text, or leaves it as it is.
func painter(colour bool) func(code, text string) string {
	return func(code, text string) string {
		if !colour {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
}
