package gate

import (
	"errors"
	"fmt"
	"os"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
)

// Override is the operator's own rule for origins: a verdict, or a robots.txt that replaces
// theirs. It is an item of the list "overrides" of a configuration.
type Override struct {
	Origin     identity.OriginGlob `yaml:"origin"`
	Verdict    Action              `yaml:"verdict"`
	RobotsFile string              `yaml:"robots_file,path"`

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

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Override) Validate() error {
	var errs []error
	if o.Origin == (identity.OriginGlob{}) {
		errs = append(errs, keyerr.New("origin", "it is missing; write scheme://host or scheme://host:port, as in https://*.example.com"))
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
	return errors.Join(errs...)
}

// load reads the robots_file, up to maxBytes, as a live robots.txt is read.
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

// override judges by an override. Its robots_file is matched like any robots.txt.
func (v *Verdict) override(o *Override, tokens []string, target robots.Target) {
	v.source = o.RobotsFile
	switch {
	case o.Verdict == Allow, o.file != nil && target.IsRobotsTxt():
		v.Judgment = Allowed
	case o.file != nil:
		v.match(o.file, tokens, target.Path)
	}
	if v.Reason != TooCostly {
		v.Reason = Overridden
	}
	v.RobotsURL = ""
}
