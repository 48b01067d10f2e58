package preference

import (
	"iter"
	"slices"
	"strings"

	"robotsproxy/robots/pattern"
)

// Set is what the lines of one group say about use, and those that concern every bot. It
// does not change, and is safe for concurrent use. A nil Set refuses nothing.
type Set struct {
	own    []check
	common []check // of the lines before the first user-agent line, shared by all groups
}

// A check holds the lines that answer one question, some of which refuse.
type check struct {
	question *question
	lines    pattern.Set
	always   bool // they refuse on every path
}

// words are those of the values of a category.
type words [immediate + 1]string

// A question is whether a source refuses one part of a declared use.
type question struct {
	source   Source
	sources  Sources // that one
	category category
	purposes Purposes       // it concerns bots that declare this purpose
	content  ContentUse     // or those that declare this use of content
	refusing []pattern.Rank // the values of the category that refuse
	words    words          // what the source writes for these
}

var questions = []question{
	purposeQuestion(ContentSignal, search, Search, "search=no"),
	purposeQuestion(ContentSignal, aiInput, AIInput, "ai-input=no"),
	purposeQuestion(ContentSignal, aiTrain, AITrain, "ai-train=no"),
	contentQuestion(Full, reference, immediate),
	contentQuestion(Reference, immediate),
	purposeQuestion(ContentUsage, search, Search, "search=n"),
	purposeQuestion(ContentUsage, aiInput, AIInput, "ai-use=n"),
	purposeQuestion(ContentUsage, aiTrain, AITrain, "train-ai=n"),
}

func purposeQuestion(source Source, c category, p Purpose, refusal string) question {
	return question{source: source, sources: source.bit(), category: c, purposes: p.bit(), refusing: []pattern.Rank{no}, words: words{no: refusal}}
}

// contentQuestion asks whether a Content-Signal has a use= that is less than the declared one.
func contentQuestion(declared ContentUse, less ...pattern.Rank) question {
	return question{
		source: ContentSignal, sources: ContentSignal.bit(), category: contentUse, content: declared,
		refusing: less, words: words{reference: "use=reference", immediate: "use=immediate"},
	}
}

func (q *question) refusedBy(value pattern.Rank) bool { return slices.Contains(q.refusing, value) }

// sameLines reports whether the same lines answer both questions.
func (q *question) sameLines(other *question) bool {
	return q.source == other.source && q.category == other.category
}

// concerns reports whether the answer matters to a bot of that use, by sources that count.
func (q *question) concerns(use Use, sources Sources) bool {
	if use.Purposes == 0 || sources&q.sources == 0 {
		return false
	}
	return use.Purposes&q.purposes != 0 || q.content != "" && q.content == use.Content
}

// Refusal is a line that refuses a declared use.
type Refusal struct {
	Source     Source
	Preference string // as the source writes it: ai-train=no, train-ai=n, use=reference
	Path       string // the line's path as written; "" if it has none
	Line       int    // from 1; 0 if it is no line of a robots.txt, or the search for it gave up
}

// String is the source and what it says, without the line's number:
// "content-signal: ai-train=no" or "content-usage: /blog/ train-ai=n".
func (r Refusal) String() string {
	return string(r.Source) + ": " + strings.TrimLeft(r.Path+" "+r.Preference, " ")
}

// Refusal returns the line that refuses a use of a path and query, as a client writes them;
// false if none does. Of the sources and of the parts of the use, any that is refused is
// enough. Of each source, the line with the longest path that matches decides, as a whole: it
// leaves open what it does not state. Of several as long, the most restrictive decides.
// Refusal allocates nothing.
//
// What it may cost is bounded. Where file and path would take more than a few milliseconds
// it gives up and returns a Refusal on line 0.
func (s *Set) Refusal(path string, use Use, sources Sources) (refusal Refusal, refused bool) {
	if s.RefusesNone(use, sources) {
		return Refusal{}, false
	}
	var search pattern.Search
	search.On(path, func() {
		for c := range s.concerning(use, sources) {
			if refusal, refused = c.refusal(&search); refused {
				return
			}
		}
	})
	return refusal, refused
}

// refusal is that of the line which decides about a path.
func (c *check) refusal(search *pattern.Search) (Refusal, bool) {
	q := c.question
	p, found := search.Match(&c.lines)
	if gaveUp := found && p.Line == 0; gaveUp {
		p.Rank = q.refusing[0]
	}
	if !found || !q.refusedBy(p.Rank) {
		return Refusal{}, false
	}
	return Refusal{Source: q.source, Preference: q.words[p.Rank], Path: p.Text, Line: p.Line}, true
}

// RefusesAll reports whether it is certain that every path is refused.
func (s *Set) RefusesAll(use Use, sources Sources) bool {
	for c := range s.concerning(use, sources) {
		if c.always {
			return true
		}
	}
	return false
}

// RefusesNone reports whether it is certain that no path is refused.
func (s *Set) RefusesNone(use Use, sources Sources) bool {
	for range s.concerning(use, sources) {
		return false
	}
	return true
}

// concerning are the checks that matter to a bot of that use.
func (s *Set) concerning(use Use, sources Sources) iter.Seq[*check] {
	return func(yield func(*check) bool) {
		if s == nil {
			return
		}
		for _, checks := range [...][]check{s.own, s.common} {
			for i := range checks {
				if checks[i].question.concerns(use, sources) && !yield(&checks[i]) {
					return
				}
			}
		}
	}
}
