package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// sections are the folders of every origin. Each has the folders open and shut, and pages
// with the endings html and pdf: /c/shut/17.pdf.
const sections = "abcdefgh"

// A robotsKind is how a version of a robots.txt is served.
type robotsKind string

const (
	robotsRules    robotsKind = "rules"     // its rules
	robotsSlow     robotsKind = "slow"      // its rules, late
	robotsLong     robotsKind = "endless"   // its rules, and comments without an end
	robotsMissing  robotsKind = "missing"   // 404
	robotsCircle   robotsKind = "circle"    // a redirect to itself
	robotsBinary   robotsKind = "binary"    // octets that hold no rule
	robotsFailing  robotsKind = "failing"   // 500
	robotsCut      robotsKind = "cut"       // the connection ends within its rules
	robotsBadChunk robotsKind = "bad chunk" // a broken chunk after its rules; over HTTP/2, cut
)

// robotsKinds are all kinds; those with rules come more often.
var robotsKinds = []robotsKind{
	robotsRules, robotsRules, robotsRules, robotsRules, robotsRules, robotsSlow, robotsLong,
	robotsMissing, robotsCircle, robotsBinary, robotsFailing, robotsCut, robotsBadChunk,
}

// A version is one robots.txt of an origin.
type version struct {
	kind   robotsKind
	groups map[string]group // by product token; "*" is everybody else
	number int
}

// A group is what a robots.txt says to one agent.
type group struct {
	closed string // these sections are disallowed
	spared bool   // but for their folders open
	noPDF  bool   // so is every PDF, but for those in the spared folders
	delay  string // its Crawl-delay in seconds; "" for none
}

// agents are the User-Agents of clients, each with the group that rules it.
var agents = map[string]string{"SoakBot/1.0 (+https://soak.test/bot)": "soakbot", "OtherBot/2.0": "*"}

func newVersion(random *rand.Rand, number int, kind robotsKind) version {
	v := version{kind: kind, groups: map[string]group{}, number: number}
	for _, agent := range []string{"soakbot", "*"} {
		g := group{spared: random.IntN(2) == 0, noPDF: random.IntN(3) == 0}
		if random.IntN(4) == 0 {
			g.delay = "0.05"
		}
		for _, section := range sections {
			if random.IntN(3) == 0 {
				g.closed += string(section)
			}
		}
		v.groups[agent] = g
	}
	return v
}

// text is the version as a robots.txt.
func (v version) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# version %d\n", v.number)
	for _, agent := range []string{"soakbot", "*"} {
		g := v.groups[agent]
		fmt.Fprintf(&b, "\nUser-agent: %s\nAllow: /none/\n", agent)
		if g.delay != "" {
			fmt.Fprintf(&b, "Crawl-delay: %s\n", g.delay)
		}
		for _, section := range g.closed {
			if g.spared {
				fmt.Fprintf(&b, "Allow: /%c/open/\n", section)
			}
			fmt.Fprintf(&b, "Disallow: /%c/\n", section)
		}
		if g.noPDF {
			b.WriteString("Disallow: /*.pdf$\n")
		}
	}
	return b.String()
}

// isUnreachable says that a proxy can't have this version, so that it must refuse everything.
func (v version) isUnreachable() bool {
	return v.kind == robotsFailing || v.kind == robotsCut || v.kind == robotsBadChunk
}

// allows is the model of what a version means. It knows nothing of patterns: only of the
// sections, folders and endings that the sites of a run have.
func (v version) allows(agent, path string) bool {
	switch v.kind {
	case robotsMissing, robotsCircle, robotsBinary:
		return true
	case robotsFailing, robotsCut, robotsBadChunk:
		return false
	}
	token, known := agents[agent]
	if !known {
		token = "*"
	}
	g := v.groups[token]
	parts := strings.Split(path, "/") // "", section, folder, page
	isClosed := strings.Contains(g.closed, parts[1])
	switch {
	case isClosed && g.spared && parts[2] == "open":
		return true
	case isClosed:
		return false
	}
	return !g.noPDF || !strings.HasSuffix(path, ".pdf")
}

// isPage says that a path is one that allows knows.
func isPage(path string) bool { return pagePath.MatchString(path) }

var pagePath = regexp.MustCompile(`^/[a-h]/(open|shut)/[0-9]+\.(html|pdf)$`)

// randomPath is the path of a page, so that many paths come again.
func randomPath(random *rand.Rand) string {
	return fmt.Sprintf("/%c/%s/%d.%s", sections[random.IntN(len(sections))], []string{"open", "shut"}[random.IntN(2)],
		random.IntN(400), []string{"html", "html", "pdf"}[random.IntN(3)])
}
