// Package preference reads what a site says about the use of its pages: whether they may
// serve a search index, the answers of a model or its training. Allow and Disallow say whether
// a page may be fetched; these lines of a robots.txt say what for.
//
// There are two such lines: Content-Signal (contentsignals.org) and Content-Usage
// (draft-ietf-aipref-attach, draft-ietf-aipref-vocab). A [Builder] takes those of a file and
// makes a [Set] for each group. A bot declares a [Use], and [Set.Refusal] finds the line that
// refuses it for a path. The package does no I/O.
package preference

import (
	"errors"
	"fmt"

	"robotsproxy/internal/enum"
)

// Purpose is what a bot fetches pages for.
type Purpose string

const (
	Search  Purpose = "search"   // an index whose results link to the page
	AIInput Purpose = "ai-input" // input of a model that answers somebody
	AITrain Purpose = "ai-train" // training of a model
)

// UnmarshalText reads one of the words above.
func (p *Purpose) UnmarshalText(text []byte) error {
	return enum.Unmarshal(p, text, Search, AIInput, AITrain)
}

// Purposes is a set of purposes.
type Purposes uint8

// PurposesOf returns the set of these purposes. It ignores other words, which UnmarshalText
// does not read.
func PurposesOf(purposes ...Purpose) (all Purposes) {
	for _, p := range purposes {
		all |= p.bit()
	}
	return all
}

// Has reports whether the set has a purpose.
func (ps Purposes) Has(p Purpose) bool { return ps&p.bit() != 0 }

func (p Purpose) bit() Purposes {
	switch p {
	case Search:
		return 1
	case AIInput:
		return 2
	case AITrain:
		return 4
	}
	return 0
}

// ContentUse is how much of a page is kept and shown again, from the least to the most. ""
// means that nothing is declared.
type ContentUse string

const (
	Immediate ContentUse = "immediate" // nothing: it is used at once
	Reference ContentUse = "reference" // an index, excerpts, a link
	Full      ContentUse = "full"      // summaries and copies
)

// UnmarshalText reads one of the words above, or "".
func (u *ContentUse) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*u = ""
		return nil
	}
	return enum.Unmarshal(u, text, Immediate, Reference, Full)
}

// Use is what a bot declares to do with the pages that it fetches.
type Use struct {
	Purposes Purposes   // none: no preference concerns the bot, whatever Content says
	Content  ContentUse // "": no use= of a Content-Signal concerns it
}

// ParseUse reads a use as people write it on a command line or in a URL: purposes, and perhaps a
// use of content. Without purposes the use of content must be "", since nothing would come of
// it.
func ParseUse(purposes []string, content string) (use Use, err error) {
	for _, word := range purposes {
		var p Purpose
		if err := p.UnmarshalText([]byte(word)); err != nil {
			return Use{}, fmt.Errorf("purpose: %w", err)
		}
		use.Purposes |= p.bit()
	}
	if err := use.Content.UnmarshalText([]byte(content)); err != nil {
		return Use{}, fmt.Errorf("use of content: %w", err)
	}
	if content != "" && use.Purposes == 0 {
		return Use{}, errors.New("a use of content counts only with a purpose; name one too")
	}
	return use, nil
}

// Source is where a site states a preference.
type Source string

const (
	ContentSignal Source = "content-signal" // that line of a robots.txt
	ContentUsage  Source = "content-usage"  // that line of a robots.txt
	TDMRep        Source = "tdmrep"         // the TDM Reservation Protocol
	Response      Source = "response"       // fields of the response itself
)

// UnmarshalText reads one of the words above.
func (s *Source) UnmarshalText(text []byte) error {
	return enum.Unmarshal(s, text, ContentSignal, ContentUsage, TDMRep, Response)
}

// Sources is a set of sources.
type Sources uint8

// SourcesOf returns the set of these sources. It ignores other words, which UnmarshalText
// does not read.
func SourcesOf(sources ...Source) (all Sources) {
	for _, s := range sources {
		all |= s.bit()
	}
	return all
}

// Has reports whether the set has a source.
func (ss Sources) Has(s Source) bool { return ss&s.bit() != 0 }

func (s Source) bit() Sources {
	switch s {
	case ContentSignal:
		return 1
	case ContentUsage:
		return 2
	case TDMRep:
		return 4
	case Response:
		return 8
	}
	return 0
}
