package robots

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"robotsproxy/internal/conformancetest"
	"robotsproxy/robots/urlpath"
)

// row is a case of the conformance data; testdata/conformance/README.md describes the fields.
type row struct {
	ID        string
	Kind      string
	Robots    string
	RobotsB64 []byte `json:"robots_b64"`
	Agents    []string
	URL       string
	Allowed   *bool
	Line      *int

	RobotsURL  *string `json:"robots_url"`
	Governs    *bool
	Sitemaps   *[]string
	CrawlDelay json.RawMessage `json:"crawl_delay"`

	Path             string
	Pattern, Escaped string
	Agent            string
	Valid            bool
	Directives       int
	LastLine         int `json:"last_directive_line"`
}

func (r *row) body() []byte {
	if r.RobotsB64 != nil {
		return r.RobotsB64
	}
	return []byte(r.Robots)
}

func (r *row) file() *File { return Parse(r.body()) }

// path is the path that the row asks about, which its URL has or is.
func (r *row) path(t *testing.T) (path string, robotsTxt bool) {
	if r.URL == "" || r.URL[0] == '/' || !strings.Contains(r.URL, "://") {
		path, _, _ = strings.Cut(r.URL, "#")
		return path, Target{Path: path}.IsRobotsTxt()
	}
	target, err := ParseTarget(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	return target.Path, target.IsRobotsTxt()
}

// otherSuites are the cases of other projects, which are not part of the repository.
var otherSuites = []string{
	"benjaminestes.jsonl", "cpython_robotparser.jsonl", "crawler_commons.jsonl", "google_robots_extra.jsonl",
	"google_robots_test.jsonl", "protego.jsonl", "rep_cpp.jsonl", "reppy.jsonl", "robots_parser_js.jsonl",
	"robotstxt_spec_test.jsonl", "temoto.jsonl", "texting_robots.jsonl",
}

func TestConformance(t *testing.T) {
	for _, name := range []string{"differential.jsonl.gz", "google_spec.jsonl", "robots_url.jsonl"} {
		checkRows(t, filepath.Join("testdata", "conformance", name))
	}
}

func TestConformanceWithOtherSuites(t *testing.T) {
	for _, path := range conformancetest.Files(t, otherSuites...) {
		checkRows(t, path)
	}
}

func checkRows(t *testing.T, path string) {
	t.Run(filepath.Base(path), func(t *testing.T) {
		for _, r := range conformancetest.Rows[row](t, path) {
			t.Run(r.ID, r.check)
		}
	})
}

func (r *row) check(t *testing.T) {
	switch {
	case r.Allowed != nil:
		r.checkVerdict(t)
	case r.Governs != nil:
		r.checkGoverns(t)
	case r.Sitemaps != nil:
		r.checkSitemaps(t)
	case r.CrawlDelay != nil:
		r.checkCrawlDelay(t)
	case r.Kind != "":
		r.checkExtra(t)
	default:
		r.checkRobotsURL(t)
	}
}

func (r *row) checkVerdict(t *testing.T) {
	path, robotsTxt := r.path(t)
	var rule Rule
	matches, line := false, 0
	if group, _ := r.file().Group(r.Agents); group != nil {
		rule, matches = group.Match(path)
		if line = rule.Line; !matches {
			blank, _ := group.Blank()
			line = blank.Line
		}
	}
	if allowed := robotsTxt || !matches || rule.Allow; allowed != *r.Allowed {
		t.Errorf("%q for %q: allowed is %v by line %d, want %v\n%s", r.URL, r.Agents, allowed, line, *r.Allowed, r.Robots)
	}
	if r.Line != nil && line != *r.Line {
		t.Errorf("%q for %q: line %d, want %d\n%s", r.URL, r.Agents, line, *r.Line, r.Robots)
	}
}

func (r *row) checkGoverns(t *testing.T) {
	// By these rows a robots.txt in a subdirectory governs nothing.
	robots, err := ParseTarget(*r.RobotsURL)
	if err != nil {
		t.Fatal(err)
	}
	target, err := ParseTarget(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	if governs := robots.IsRobotsTxt() && robots.Origin == target.Origin; governs != *r.Governs {
		t.Errorf("%s governs %s: %v, want %v", *r.RobotsURL, r.URL, governs, *r.Governs)
	}
}

func (r *row) checkRobotsURL(t *testing.T) {
	target, err := ParseTarget(r.URL)
	if r.RobotsURL == nil {
		if err == nil {
			t.Errorf("%s is governed by %s, want none", r.URL, target.Origin.RobotsURL())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.ID == "rurl-018" { // a trailing dot makes no other host
		want, err := ParseTarget(*r.RobotsURL)
		if err != nil || target.Origin != want.Origin {
			t.Errorf("%s has origin %s, %s has %s (%v)", r.URL, target.Origin, *r.RobotsURL, want.Origin, err)
		}
		return
	}
	if got := target.Origin.RobotsURL(); got != *r.RobotsURL {
		t.Errorf("%s is governed by %s, want %s", r.URL, got, *r.RobotsURL)
	}
}

// Why this project differs on purpose from what a suite says of sitemaps and delays. Rows in
// exceptions must differ, so that the list stays true.
const (
	noGroup   = "a Crawl-delay before any group belongs to none"
	notNumber = "a value that is no number states nothing"
	asWritten = "Sitemap values are given as written, each as often as it stands there"
)

var exceptions = map[string]string{
	"rep_cpp-0115": noGroup, "reppy-0090": noGroup, "texting_robots-0293": noGroup,
	"texting_robots-0297": noGroup, "texting_robots-0307": noGroup, "texting_robots-0317": noGroup,

	"crawler_commons-0603": notNumber, "crawler_commons-0604": notNumber, "texting_robots-0285": notNumber,

	"crawler_commons-0599": asWritten, "crawler_commons-0607": asWritten, "texting_robots-0291": asWritten,
	"crawler_commons-0606": "a line without a field is no Sitemap line",
	"texting_robots-0303":  `"site map" is not among the accepted spellings`,
}

func (r *row) checkSitemaps(t *testing.T) {
	got := r.file().Sitemaps()
	compare(t, exceptions[r.ID], slices.Equal(got, *r.Sitemaps), got, *r.Sitemaps)
}

func (r *row) checkCrawlDelay(t *testing.T) {
	var want *float64
	if err := json.Unmarshal(r.CrawlDelay, &want); err != nil {
		t.Fatal(err)
	}
	var delay time.Duration
	stated := false
	if group, _ := r.file().Group(r.Agents); group != nil {
		delay, stated = group.Delay(0)
	}
	same := stated == (want != nil) && (!stated || delay == time.Duration(*want*float64(time.Second)))
	compare(t, exceptions[r.ID], same, delay, string(r.CrawlDelay))
}

func compare(t *testing.T, why string, same bool, got, want any) {
	t.Helper()
	switch {
	case why == "" && !same:
		t.Errorf("got %v, want %v", got, want)
	case why != "" && same:
		t.Errorf("agrees with the suite, but is listed as an exception: %s", why)
	}
}

func (r *row) checkExtra(t *testing.T) {
	switch r.Kind {
	case "path_of_url":
		if !strings.Contains(r.URL, "://") {
			if _, err := ParseTarget(r.URL); err == nil {
				t.Error("taken as an absolute URL")
			}
			t.Skip("not an absolute URL; the proxy never guesses a host")
		}
		if path, _ := r.path(t); path != r.Path {
			t.Errorf("path %q, want %q", path, r.Path)
		}
	case "escape_pattern":
		if got := string(urlpath.AppendPattern(nil, r.Pattern)); got != r.Escaped {
			t.Errorf("escaped %q, want %q", got, r.Escaped)
		}
	case "valid_agent":
		// A name is valid if a user-agent line of just it can name it by its
		// leading run alone.
		name, lead := agentNames(r.Agent)
		if valid := r.Agent != "" && lead == r.Agent && name == lead; valid != r.Valid {
			t.Errorf("valid is %v, want %v", valid, r.Valid)
		}
	case "sitemaps":
		r.checkSitemaps(t)
	case "line_count", "bom":
		directives, last := 0, 0
		eachLine(trimMark(string(r.body())), func(number int, line string) {
			if field, _ := splitLine(line); field != unknown {
				directives, last = directives+1, number
			}
		})
		if directives != r.Directives || r.LastLine != 0 && last != r.LastLine {
			t.Errorf("%d directives, the last in line %d; want %d, %d", directives, last, r.Directives, r.LastLine)
		}
	default:
		t.Errorf("unknown kind %q", r.Kind)
	}
}
