// Package tdmrep reads what a site says about text and data mining in its
// /.well-known/tdmrep.json: the TDM Reservation Protocol, a report of a W3C Community Group.
// [Parse] makes a [File], and [File.Match] finds the rule that decides about a path.
//
// The file is an array of rules:
//
//	[{"location": "/images/", "tdm-reservation": 1, "tdm-policy": "https://example.com/policy.json"}]
//
// Locations are patterns as in a robots.txt, but the first that matches decides, not the
// longest. The package does no I/O: it never fetches a policy.
package tdmrep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unsafe"

	"robotsproxy/robots/pattern"
)

// Path is where an origin has its file.
const Path = "/.well-known/tdmrep.json"

// maxPolicy bounds the URL of a policy, in octets.
const maxPolicy = 2048

// A Rule says whether the right to mine what is at a location is reserved.
type Rule struct {
	Reserved bool   // tdm-reservation is 1, not 0
	Location string // the pattern of paths as the site wrote it, which may not be printable; "": all paths
	Policy   string // the http or https URL of the terms, in at most 2,048 printable ASCII octets; "": none
	Line     int    // of the file, from 1: where the rule begins
}

// File is a parsed tdmrep.json. It does not change, and is safe for concurrent use. The zero
// File says nothing.
type File struct {
	locations pattern.Set // the Line of a pattern is its number among rules, from 1
	rules     []rule
	size      int64
	err       error // why it was not read to its end, or not at all
}

// A rule is what a pattern does not say of a [Rule].
type rule struct {
	policy string
	line   int32
}

// The ranks of patterns.
const (
	open pattern.Rank = iota
	reserved
)

// Match returns the rule that decides about a path and query, as a client writes them: the
// first whose location matches. It returns false if there is none: then the site says nothing
// about the path. It allocates nothing.
//
// What it may cost is bounded. Where file and path would take more than a few milliseconds it
// gives up, and returns a rule that reserves, on line 0, and true.
func (f *File) Match(path string) (Rule, bool) {
	p, found := f.locations.Match(path)
	switch {
	case !found:
		return Rule{}, false
	case p.Line == 0:
		return Rule{Reserved: true}, true
	}
	r := &f.rules[p.Line-1]
	return Rule{Reserved: p.Rank == reserved, Location: p.Text, Policy: r.policy, Line: int(r.line)}, true
}

// Len returns how many rules there are.
func (f *File) Len() int { return len(f.rules) }

// Size is roughly how much memory the file takes, without its text, in bytes.
func (f *File) Size() int64 { return f.size }

// byteOrderMark may stand before the file.
const byteOrderMark = "\xEF\xBB\xBF"

const white = " \t\r\n"

// begins returns the first octet of a text that says what it is; 0 if there is none.
func begins(text []byte) byte {
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte(byteOrderMark)), white)
	if len(text) == 0 {
		return 0
	}
	return text[0]
}

// Cut returns the part of a response's body that counts: all of it or, if it begins as no
// tdmrep.json does, nothing. Many sites answer 200 with a page of HTML for whatever they do
// not have, and such pages are not worth keeping.
//
// It returns an error if the body has more than max octets: nobody knows
// what a truncated file reserves.
func Cut(body []byte, max int64) ([]byte, error) {
	if first := begins(body); first != '[' && first != '{' {
		return nil, nil
	}
	if int64(len(body)) > max {
		return nil, fmt.Errorf("a tdmrep.json of more than %d octets", max)
	}
	return body, nil
}

// Parse reads a tdmrep.json. It takes time and memory that grow linearly with the text, to
// which the File does not refer.
//
// It reads no rule from what is no JSON, such as a page of HTML. A rule whose tdm-reservation
// is neither 0 nor 1, as a number or a string, is ignored, as the report says, and so is one
// whose location is no pattern. Of a member that is repeated the last one counts. Parse
// forgives what sites do write: a rule without a location, which is for all paths; a single
// rule, or an object with the array in it, in place of the array; tdm_reservation for
// tdm-reservation; and rules before a fault in the JSON count.
func Parse(text []byte) *File {
	p := parser{text: bytes.TrimPrefix(text, []byte(byteOrderMark)), line: 1, policies: map[string]string{}}
	p.locations = pattern.NewBuilder(0, 0)
	p.locations.FirstDecides = true
	p.locations.Section()
	f := new(File)
	switch begins(text) {
	case '[':
		f.err = p.array(p.text, 0)
	case '{':
		f.err = p.object()
	default:
		f.err = errors.New("it is no JSON array")
	}
	if len(p.rules) == 0 {
		return f
	}
	sets, size := p.locations.Sets([][]int32{{0}})
	f.locations, f.rules = sets[0], p.rules
	f.size = size + int64(cap(f.rules))*int64(unsafe.Sizeof(rule{}))
	for policy := range p.policies {
		f.size += int64(len(policy))
	}
	return f
}

// A parser collects the rules of a text.
type parser struct {
	text      []byte
	locations *pattern.Builder
	rules     []rule
	policies  map[string]string // by themselves: most sites have one for all rules

	at   int64 // up to there lines have been counted
	line int   // the line of at
}

// array reads the array that a part of the text begins with. That part is at an offset of
// the text.
func (p *parser) array(part []byte, offset int64) error {
	in := json.NewDecoder(bytes.NewReader(part))
	if _, err := in.Token(); err != nil { // the opening bracket
		return err
	}
	var element json.RawMessage
	for in.More() {
		if err := in.Decode(&element); err != nil {
			return err
		}
		p.add(element, offset+in.InputOffset()-int64(len(element)))
	}
	_, err := in.Token()
	return err
}

// object reads a text that is an object: a rule, or one with an array of them in it.
func (p *parser) object() error {
	in := json.NewDecoder(bytes.NewReader(p.text))
	var value json.RawMessage
	if err := in.Decode(&value); err != nil {
		return err
	}
	start := in.InputOffset() - int64(len(value))
	if p.add(value, start) {
		return nil
	}
	in = json.NewDecoder(bytes.NewReader(p.text))
	in.Token() // the opening brace
	for in.More() {
		in.Token() // the name
		if err := in.Decode(&value); err != nil {
			return err
		}
		if begins(value) == '[' {
			return p.array(value, in.InputOffset()-int64(len(value)))
		}
	}
	return errors.New("it is no JSON array")
}

// add adds the rule that an element at an offset is. It returns false if it is none.
func (p *parser) add(element []byte, offset int64) bool {
	var members struct {
		Location     json.RawMessage `json:"location"`
		Reservation  json.RawMessage `json:"tdm-reservation"`
		Reservation2 json.RawMessage `json:"tdm_reservation"`
		Policy       json.RawMessage `json:"tdm-policy"`
	}
	if json.Unmarshal(element, &members) != nil {
		return false
	}
	if members.Reservation == nil {
		members.Reservation = members.Reservation2
	}
	rank := open
	switch string(members.Reservation) {
	case `1`, `"1"`:
		rank = reserved
	case `0`, `"0"`:
	default:
		return false
	}
	location, ok := text(members.Location)
	if !ok || location != "" && location[0] != '/' && location[0] != '*' {
		return false
	}
	p.line += bytes.Count(p.text[p.at:offset], []byte("\n"))
	p.at = offset
	policy, _ := text(members.Policy)
	p.rules = append(p.rules, rule{p.policy(policy), int32(p.line)})
	p.locations.Add(pattern.Pattern{Text: location, Rank: rank, Line: len(p.rules)})
	return true
}

// text returns the text of a member; "" if it is absent. It returns false if the member is
// no string.
func text(member json.RawMessage) (s string, ok bool) {
	if member == nil {
		return "", true
	}
	return s, json.Unmarshal(member, &s) == nil
}

// policy returns the URL of a policy in a form that can be shown and linked to; "" if it has
// none.
func (p *parser) policy(address string) string {
	if len(address) > maxPolicy {
		return ""
	}
	if known, is := p.policies[address]; is {
		return known
	}
	u, err := url.Parse(strings.Trim(address, white))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	u.User = nil
	shown := u.String()
	if len(shown) > maxPolicy || strings.ContainsFunc(shown, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	p.policies[address] = shown
	return shown
}
