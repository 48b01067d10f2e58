package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// clientEnv returns the variables that a user sets to point clients at the proxy.
func (w *world) clientEnv() []string {
	proxy := "http://" + w.proxy
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir,
		"http_proxy=" + proxy, "HTTP_PROXY=" + proxy, "https_proxy=" + proxy, "HTTPS_PROXY=" + proxy,
		"CURL_CA_BUNDLE=" + w.caFile(),
	}
}

func (w *world) caFile() string { return filepath.Join(w.dir, "ca.pem") }

// reply is what curl got for one URL.
type reply struct {
	exit    int // curl's own exit code
	status  int
	version string // of HTTP, as in 1.1
	header  http.Header
	body    string
}

// curl gets one URL.
func (w *world) curl(args ...string) reply {
	w.t.Helper()
	replies := w.curls(args...)
	if len(replies) != 1 {
		w.t.Fatalf("curl %q: %d replies", args, len(replies))
	}
	return replies[0]
}

// curls gets several URLs with one run of curl. args must have the option -o for each URL
// but one.
func (w *world) curls(args ...string) []reply {
	w.t.Helper()
	curl, err := exec.LookPath("curl")
	if err != nil {
		w.t.Skip("there is no curl; install the package curl, as make deps does")
	}
	const mark = "\n--curl--\n"
	run := exec.Command(curl, append([]string{
		"--disable", "--silent", "--globoff", "--path-as-is", "--max-time", "120", "--suppress-connect-headers",
		"--write-out", mark + `{"status": "%{http_code}", "version": "%{http_version}", "exit": %{exitcode}, "header": %{header_json}}` + mark,
	}, args...)...)
	run.Env = w.clientEnv()
	var out bytes.Buffer
	run.Stdout = &out
	run.Run() // the exit code is in each reply
	var replies []reply
	parts := strings.Split(out.String(), mark)
	for i := 0; i+1 < len(parts); i += 2 {
		var written struct {
			Status  int `json:",string"`
			Version string
			Exit    int
			Header  http.Header
		}
		if err := json.Unmarshal([]byte(parts[i+1]), &written); err != nil {
			w.t.Fatalf("curl wrote %q: %v", parts[i+1], err)
		}
		header := http.Header{}
		for name, values := range written.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
		replies = append(replies, reply{written.Exit, written.Status, written.Version, header, parts[i]})
	}
	return replies
}

// statuses gets paths of a site as an agent, and returns the status of each.
func (w *world) statuses(site, agent string, paths []string, args ...string) map[string]int {
	w.t.Helper()
	args = append(args, "--user-agent", agent)
	for _, path := range paths {
		args = append(args, "--output", os.DevNull, site+path)
	}
	replies := w.curls(args...)
	if len(replies) != len(paths) {
		w.t.Fatalf("%s: %d replies to %d requests", site, len(replies), len(paths))
	}
	got := map[string]int{}
	for i, path := range paths {
		got[path] = replies[i].status
	}
	return got
}

// crawled is what the spider reports about one page.
type crawled struct {
	URL      string
	Status   int
	Refused  string // the response's Proxy-Status
	Protocol string
}

// scrapy runs the spider in testdata from these pages on, which are separated by commas.
func (w *world) scrapy(agent, from string, settings ...string) map[string]crawled {
	w.t.Helper()
	scrapy, err := exec.LookPath("scrapy")
	if err != nil {
		w.t.Skip("there is no scrapy; install the package python3-scrapy, as make deps does")
	}
	pages := filepath.Join(w.t.TempDir(), "pages.json")
	run := exec.Command(scrapy, append([]string{"runspider", filepath.Join("testdata", "spider.py"),
		"-a", "pages=" + from, "-O", pages, "-s", "USER_AGENT=" + agent}, settings...)...)
	run.Env = append(w.clientEnv(), "PYTHONDONTWRITEBYTECODE=1")
	if out, err := run.CombinedOutput(); err != nil {
		w.t.Fatalf("scrapy: %v\n%s", err, out)
	}
	text, err := os.ReadFile(pages)
	must(w.t, err)
	var all []crawled
	must(w.t, json.Unmarshal(text, &all))
	found := map[string]crawled{}
	for _, page := range all {
		found[page.URL] = page
	}
	return found
}

// wantRefused checks that a reply is the proxy's own 403, with this reason.
func wantRefused(t *testing.T, r reply, reason string) {
	t.Helper()
	proxyStatus := strings.ReplaceAll(r.header.Get("Proxy-Status"), `\"`, `"`)
	if r.status != http.StatusForbidden || !strings.Contains(proxyStatus, "error=http_request_denied") || !strings.Contains(proxyStatus, reason) {
		t.Errorf("status %s, Proxy-Status %q; want a refusal because of %q", strconv.Itoa(r.status), proxyStatus, reason)
	}
}
