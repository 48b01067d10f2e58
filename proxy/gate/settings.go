package gate

import (
	"cmp"

	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/override"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/preference"
)

// Settings are what the operator decides about judgments. A Gate never changes them; new
// settings replace them as a whole.
type Settings struct {
	Identities identity.Table
	Overrides  override.List
	MaxBytes   int64              // how much of an override's robots_file is read; 0: the default
	LogFilter  decision.LogFilter // which requests the log shows

	// Preferences says what comes of the preferences of sites about use.
	Preferences Preferences

	// StrictPaths judges a path both as RFC 9309 compares it and as servers read it
	// (see [urlpath.AsServed]), and refuses it if either is disallowed.
	StrictPaths bool

	heeded preference.Sources // by Preferences
}

// load returns a copy of s with the contents of the files that it names.
func (s Settings) load() (_ *Settings, err error) {
	if s.Identities, err = s.Identities.Load(); err != nil {
		return nil, err
	}
	s.heeded = s.Preferences.heeded()
	if s.Overrides, err = s.Overrides.Load(cmp.Or(s.MaxBytes, policy.Defaults().MaxBytes)); err != nil {
		return nil, err
	}
	return &s, nil
}

// unknown returns the error about an identity that the settings do not have.
func (s *Settings) unknown(name string) *UnknownIdentityError {
	u := &UnknownIdentityError{Name: name}
	for known := range s.Identities.All() {
		u.Known = append(u.Known, known)
	}
	return u
}
