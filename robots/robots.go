// Package robots is robots.txt as a language (RFC 9309): what a file says, which bots it
// names, which of its rules decides about a URL, and which file governs that URL. It does no
// I/O, reads no clock and logs nothing. What a file says about use is in [preference].
//
// [Parse] compiles a file. [File.Group] finds the group of a bot, and [Group.Match] the rule
// that decides about a path. Both are cheap and safe for concurrent use. [ParseTarget] splits
// a URL into the [Origin] whose robots.txt governs it and the path to match.
package robots

import (
	"sort"
	"time"

	"robotsproxy/robots/pattern"
	"robotsproxy/robots/preference"
)

// File is a parsed robots.txt. It does not change after Parse.
type File struct {
	groups   []Group // in order of their names
	sitemaps []string
	licenses []string
	size     int64
	extent   Extent
	delays   bool

	preferences *preference.Set // of bots without a group
}

// Sitemaps returns the values of the file's Sitemap lines, as written, in order. They belong
// to no group (RFC 9309 2.2.4). Callers must not change them.
func (f *File) Sitemaps() []string { return f.sitemaps }

// Licenses returns the values of the file's License lines (rslstandard.org), as written, in
// order. They say under what terms pages may be used, and decide nothing here. Callers must
// not change them.
func (f *File) Licenses() []string { return f.licenses }

// Preferences returns what the file says about use to the bots of one of its groups, or, if
// group is nil, to a bot without one; nil if nothing is refused to them.
//
// The lines before the first user-agent line concern every bot and may only restrict. In a
// group, such a line belongs only to the user-agent lines directly above it. After a rule it
// belongs to all user-agent lines of the rule's group.
func (f *File) Preferences(group *Group) *preference.Set {
	if group == nil {
		return f.preferences
	}
	return group.preferences
}

// Size is roughly how much memory the file takes, in bytes.
func (f *File) Size() int64 { return f.size }

// Extent says how far the rules of all groups reach. Everything and Nothing hold for all
// bots, named in the file or not.
func (f *File) Extent() Extent { return f.extent }

// StatesDelay reports whether any group states a delay, even one of zero or one for
// some hours only.
func (f *File) StatesDelay() bool { return f.delays }

// Group finds the group that applies to a bot with these product tokens, most specific
// first: the first token that any group names, else everyone's group. It
// returns the token that chose it, or "*" if none of them did; nil and "" if
// the file has no group for this bot (RFC 9309 2.2.1).
//
// A token may carry a version ("ExampleBot/1.0"), which names nobody and is
// ignored; "*" means everyone. Case does not matter.
func (f *File) Group(tokens []string) (*Group, string) {
	for _, token := range tokens {
		var stack [64]byte
		if g := f.named(view(appendLower(stack[:0], agentName(token)))); g != nil {
			return g, token
		}
	}
	if g := f.named(everyone); g != nil {
		return g, everyone
	}
	return nil, ""
}

// named finds the group of that name in lower case; nil if there is none.
func (f *File) named(name string) *Group {
	at := sort.Search(len(f.groups), func(i int) bool { return f.groups[i].name >= name })
	if at == len(f.groups) || f.groups[at].name != name {
		return nil
	}
	return &f.groups[at]
}

// Group is all that a file says to one bot. Groups that name the same bot are
// one (RFC 9309 2.2.1).
type Group struct {
	name   string // in lower case; "*" for everyone
	rules  pattern.Set
	extent Extent
	pace   pace
	blank  Rule // its Line is 0 if there is none

	preferences *preference.Set // see File.Preferences
}

// Name is the name under which the file addresses the bot, in lower case; "*"
// for everyone.
func (g *Group) Name() string { return g.name }

// Delay returns the time that the group asks for between the starts of two requests; false if
// it states none. It is the first Crawl-delay of the group or, without one, its first
// Request-rate that holds at the time of day at, given as the time since midnight UTC. Such a
// line belongs only to the user-agent lines directly above it. After a rule it belongs to all
// user-agent lines of the rule's group.
func (g *Group) Delay(at time.Duration) (time.Duration, bool) { return g.pace.at(at) }

// StatesDelay reports whether the group states a delay, even one of zero or one for
// some hours only.
func (g *Group) StatesDelay() bool { return g.pace.stated() }

// Extent says how far the group's rules reach.
func (g *Group) Extent() Extent { return g.extent }

// Match returns the rule that decides about a path and query, as a client writes them: of the
// rules that match, the longest; of several as long, an Allow; of several such, the first in
// the file (RFC 9309 2.2.2). It returns false if no rule matches; then the path is allowed. It
// allocates nothing.
//
// What it may cost is bounded. Where file and path would take more than a few milliseconds
// it gives up and returns the zero Rule, a Disallow on no line, and true; of a group that
// disallows nothing, false.
//
// Callers must allow /robots.txt itself, whatever Match says.
func (g *Group) Match(path string) (Rule, bool) {
	p, found := g.rules.Match(path)
	if p.Line == 0 && g.extent == Everything {
		return Rule{}, false
	}
	return Rule{Allow: p.Rank == allowRank, Pattern: p.Text, Line: p.Line}, found
}

// Blank returns the group's first rule with an empty value, an Allow before a Disallow; false
// if it has none. It matches no path. But if no rule matches, it is the line that says so:
// with "Disallow:" a site writes that it disallows nothing.
func (g *Group) Blank() (Rule, bool) { return g.blank, g.blank.Line != 0 }

// Extent is how far a group's rules reach.
type Extent int

const (
	Part       Extent = iota // the path decides
	Everything               // no path is disallowed
	Nothing                  // every path but /robots.txt is disallowed
)

func (e Extent) String() string {
	switch e {
	case Everything:
		return "everything"
	case Nothing:
		return "nothing"
	default:
		return "part"
	}
}
