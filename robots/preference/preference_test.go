package preference

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	var p Purpose
	var u ContentUse
	var s Source
	for _, test := range []struct {
		into  interface{ UnmarshalText([]byte) error }
		words string
		got   func() string
	}{
		{&p, "search ai-input ai-train", func() string { return string(p) }},
		{&u, "immediate reference full", func() string { return string(u) }},
		{&s, "content-signal content-usage tdmrep response", func() string { return string(s) }},
	} {
		for _, word := range strings.Fields(test.words) {
			for _, written := range []string{word, strings.ToUpper(word)} {
				if err := test.into.UnmarshalText([]byte(written)); err != nil || test.got() != word {
					t.Errorf("%q is read as %q, %v", written, test.got(), err)
				}
			}
			if err := test.into.UnmarshalText([]byte(word + "s")); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(test.words, " ", ", ")) {
				t.Errorf("%q with an s: %v", word, err)
			}
		}
	}
	if err := u.UnmarshalText(nil); err != nil || u != "" {
		t.Errorf("no use of content is read as %q, %v", u, err)
	}
	if p.UnmarshalText(nil) == nil || s.UnmarshalText(nil) == nil {
		t.Error("an empty word is read")
	}
}

func TestMasks(t *testing.T) {
	purposes := PurposesOf(AITrain, Search, "other")
	if !purposes.Has(Search) || purposes.Has(AIInput) || !purposes.Has(AITrain) || purposes.Has("other") || purposes.Has("") {
		t.Errorf("purposes %b", purposes)
	}
	sources := SourcesOf(ContentUsage, Response)
	if sources.Has(ContentSignal) || !sources.Has(ContentUsage) || sources.Has(TDMRep) || !sources.Has(Response) || sources.Has("") {
		t.Errorf("sources %b", sources)
	}
	if PurposesOf() != 0 || SourcesOf() != 0 {
		t.Error("nothing is something")
	}
}
