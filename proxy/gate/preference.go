package gate

import (
	"errors"
	"slices"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots/preference"
)

// Preferences is the section "preferences" of a configuration: what comes of what sites say
// about the use of their pages. It concerns only identities that declare purposes. The zero
// value heeds no source.
type Preferences struct {
	Mode     identity.Mode       `yaml:"mode"`
	Sources  []preference.Source `yaml:"sources"`
	Response ResponseAction      `yaml:"response"`
}

// DefaultPreferences is the section of an empty configuration.
func DefaultPreferences() Preferences {
	return Preferences{
		Mode:     identity.Report,
		Sources:  []preference.Source{preference.ContentSignal, preference.ContentUsage, preference.TDMRep, preference.Response},
		Response: Record,
	}
}

// ResponseAction says what becomes of a response whose own fields refuse the declared use. The
// zero value means [Record].
type ResponseAction string

const (
	// Record hands the response over, and writes the preference into the log.
	Record ResponseAction = "record"
	// Refuse answers 403 instead, in mode enforce.
	Refuse ResponseAction = "refuse"
)

// UnmarshalText reads one of the words above.
func (r *ResponseAction) UnmarshalText(text []byte) error {
	return enum.Unmarshal(r, text, Record, Refuse)
}

// Validate joins all that is wrong with p, each fault a [keyerr.Error].
func (p Preferences) Validate() error {
	var errs []error
	for i, source := range p.Sources {
		if slices.Contains(p.Sources[:i], source) {
			errs = append(errs, keyerr.New(keyerr.Item("sources", i), "%s is there twice; remove one", source))
		}
	}
	return errors.Join(errs...)
}

// Warnings joins what is valid but does not do what it says, each a [keyerr.Error].
func (p Preferences) Warnings() error {
	var errs []error
	if p.Response == Refuse && p.Mode != identity.Enforce {
		errs = append(errs, keyerr.New("response", "no response is refused in mode %s; write mode: enforce, or response: record", p.Mode))
	}
	if p.Response == Refuse && !slices.Contains(p.Sources, preference.Response) {
		errs = append(errs, keyerr.New("response", "no response is refused, because sources does not name response; add it, or write response: record"))
	}
	return errors.Join(errs...)
}

// RefusesResponses reports whether a response may be refused for its own fields.
func (p *Preferences) RefusesResponses() bool {
	return p.Mode == identity.Enforce && p.Response == Refuse && slices.Contains(p.Sources, preference.Response)
}
