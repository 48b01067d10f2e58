// Package override has the operator's own rules for origins, which replace what sites say.
//
// [List.Load] reads the files that the overrides of a [List] name, and [List.For] finds the
// override of an origin that applies now.
package override

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/printable"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
)

// List are overrides in the order in which they are tried. It is the list "overrides" of a
// configuration.
type List []Override

// Load returns a copy of the list in which the robots_file of each override is parsed. Of each
// file it reads maxBytes, as of a robots.txt that is fetched.
func (l List) Load(maxBytes int64) (List, error) {
	loaded := slices.Clone(l)
	for i := range loaded {
		if err := loaded[i].load(maxBytes); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// For returns the first override that matches an origin and has not ended; nil if none does.
func (l List) For(origin string, now time.Time) *Override {
	for i := range l {
		if o := &l[i]; o.Origin.Match(origin) && !o.Expires.passed(now) {
			return o
		}
	}
	return nil
}

// Override is the operator's own rule for origins: a verdict, or a robots.txt that replaces
// theirs.
type Override struct {
	Origin     identity.OriginGlob `yaml:"origin"`
	Verdict    Action              `yaml:"verdict"`
	RobotsFile string              `yaml:"robots_file,path"`

	// Reason says why the override is there, and By who answers for it. Refused clients, the
	// log and the API show both.
	Reason  string `yaml:"reason"`
	By      string `yaml:"by"`
	Expires Expiry `yaml:"expires"`

	file *robots.File // what RobotsFile holds
}

// Action is an operator's verdict.
type Action string

// The two actions. The zero value is neither; then the override has a robots_file.
const (
	Allow    Action = "allow"
	Disallow Action = "disallow"
)

// UnmarshalText reads one of the words above.
func (a *Action) UnmarshalText(text []byte) error {
	return enum.Unmarshal(a, text, Allow, Disallow)
}

// Expiry is the moment from which an override no longer applies. The zero Expiry never comes.
type Expiry struct{ end time.Time }

// UnmarshalText reads a full-date of RFC 3339, which lasts to the end of that day in UTC, or a
// date-time.
func (e *Expiry) UnmarshalText(text []byte) error {
	end, err := time.Parse(time.DateOnly, string(text))
	if err == nil {
		end = end.AddDate(0, 0, 1)
	} else if end, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is neither a date nor a time; write the last day on which the override applies (UTC), for example 2027-01-31, or a time, for example 2027-01-31T18:00:00Z", text)
	}
	if end = end.UTC(); end.Year() < 2000 || end.Year() > 9999 { // JSON has no later years
		return fmt.Errorf("%q is out of range; write a date from 2000-01-01 to 9999-12-30, or remove the key for an override without end", text)
	}
	e.end = end
	return nil
}

// String returns the last day on which the override applies, or the time at which it ends if
// that is within a day.
func (e Expiry) String() string {
	if e.end.Equal(e.end.Truncate(24 * time.Hour)) {
		return e.end.AddDate(0, 0, -1).Format(time.DateOnly)
	}
	return e.end.Format(time.RFC3339)
}

// Time returns the moment in UTC; zero if it never comes.
func (e Expiry) Time() time.Time { return e.end }

// passed reports whether the moment has come.
func (e Expiry) passed(now time.Time) bool { return !e.end.IsZero() && !now.Before(e.end) }

// How long an override's texts may be, in characters.
const (
	maxReason = 500
	maxBy     = 100
)

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Override) Validate() error {
	var errs []error
	if o.Origin == (identity.OriginGlob{}) {
		errs = append(errs, keyerr.New("origin", "it is missing; write scheme://host or scheme://host:port, for example https://*.example.com"))
	}
	switch {
	case o.Verdict == "" && o.RobotsFile == "":
		errs = append(errs, keyerr.New("verdict", "it is missing; write allow or disallow, or a robots_file instead"))
	case o.Verdict != "" && o.RobotsFile != "":
		errs = append(errs, keyerr.New("robots_file", "there is a verdict too; remove one of them"))
	case o.RobotsFile != "":
		if _, err := os.ReadFile(o.RobotsFile); err != nil {
			errs = append(errs, keyerr.New("robots_file", "%w; name a robots.txt that can be read", err))
		}
	}
	errs = append(errs, validateText("reason", o.Reason, maxReason), validateText("by", o.By, maxBy))
	return errors.Join(errs...)
}

// validateText checks a text that logs, pages and terminals show as it is.
func validateText(key, text string, maxLength int) error {
	switch length := utf8.RuneCountInString(text); {
	case length > maxLength:
		return keyerr.New(key, "it has %d characters; write %d at most", length, maxLength)
	case printable.Line(text) != text:
		return keyerr.New(key, "%q has characters that can't be shown; write plain text on one line (>- in place of | or > makes one of several)", text)
	case text != "" && strings.TrimSpace(text) == "":
		return keyerr.New(key, "it is blank; write a text, or remove the key")
	}
	return nil
}

// warnBeforeExpiry is how long before its end an override has a warning.
const warnBeforeExpiry = 7 * 24 * time.Hour

// Warning says that the override has ended, or ends within a week, and what to do. It is "" if
// neither is so.
func (o *Override) Warning(now time.Time) string {
	switch {
	case o.Expires.passed(now):
		return fmt.Sprintf("the override of %s applied until %s and no longer does; write a later date, or remove the override", o.Origin, o.Expires)
	case o.Expires.passed(now.Add(warnBeforeExpiry)):
		return fmt.Sprintf("the override of %s applies until %s only; write a later date if it is to stay", o.Origin, o.Expires)
	}
	return ""
}

// load reads the robots_file, as a live robots.txt is read.
func (o *Override) load(maxBytes int64) error {
	if o.RobotsFile == "" {
		return nil
	}
	f, err := os.Open(o.RobotsFile)
	if err != nil {
		return fmt.Errorf("reading the robots_file of an override: %w", err)
	}
	defer f.Close()
	body, err := fetch.Read(f, maxBytes)
	if err != nil {
		return fmt.Errorf("reading the robots_file of an override: %w", err)
	}
	o.file = robots.Parse(body)
	return nil
}

// File returns what the robots_file holds; nil if there is none, or if it was not loaded.
func (o *Override) File() *robots.File { return o.file }

// Grounds says by whom the override is, until when it applies and why, as far as the
// configuration says so. It continues a sentence, as in ", by Ada until 2027-01-31: our own site".
func (o *Override) Grounds() string {
	var words []string
	if o.By != "" {
		words = append(words, "by "+o.By)
	}
	if !o.Expires.end.IsZero() {
		words = append(words, "until "+o.Expires.String())
	}
	grounds := ""
	if len(words) > 0 {
		grounds = ", " + strings.Join(words, " ")
	}
	if o.Reason != "" {
		grounds += ": " + o.Reason
	}
	return grounds
}
