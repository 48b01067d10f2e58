package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// description is the API's OpenAPI document. Answers are checked against it.
type description struct {
	t        *testing.T
	doc      object
	compiler *jsonschema.Compiler
	seen     map[string]bool // described responses that a test has had, by their pointers
}

func describe(t *testing.T) *description {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "proxy", "admin", "openapi.json"))
	must(t, err)
	d := &description{t: t, compiler: jsonschema.NewCompiler(), seen: map[string]bool{}}
	must(t, json.Unmarshal(text, &d.doc))
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	forbidOthers(map[string]any(d.doc))
	must(t, d.compiler.AddResource("openapi.json", map[string]any(d.doc)))
	return d
}

// forbidOthers makes all schemas reject members that they do not describe.
func forbidOthers(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, child := range node {
			forbidOthers(child)
		}
		if node["type"] == "object" && node["properties"] != nil {
			node["additionalProperties"] = false
		}
	case []any:
		for _, child := range node {
			forbidOthers(child)
		}
	}
}

// at follows a JSON pointer and the references on its way. It returns the value and the
// pointer without references.
func (d *description) at(pointer ...string) (object, string) {
	node, path := d.doc, "#"
	for _, key := range pointer {
		node, _ = node[key].(map[string]any)
		path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if ref, ok := node["$ref"].(string); ok {
			return d.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return node, path
}

// validate checks JSON against a schema.
func (d *description) validate(what, schema, text string) {
	d.t.Helper()
	compiled, err := d.compiler.Compile("openapi.json" + schema)
	must(d.t, err)
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = compiled.Validate(value)
	}
	if err != nil {
		d.t.Errorf("%s: %v\n%s", what, err, text)
	}
}

// want sends a request. The answer must have this status and be as described.
func (d *description) want(w *world, status int, method, target string, header ...string) {
	d.t.Helper()
	r, err := http.NewRequest(method, "http://"+w.admin+target, nil)
	must(d.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	must(d.t, err)
	defer resp.Body.Close()
	what := fmt.Sprintf("%s %s: status %d", method, target, resp.StatusCode)
	path, _, _ := strings.Cut(target, "?")
	pointer := []string{"paths", path, strings.ToLower(method), "responses", fmt.Sprint(status)}
	d.seen[fmt.Sprint(pointer)] = true
	response, at := d.at(pointer...)
	if resp.StatusCode != status || response == nil {
		body, _ := io.ReadAll(resp.Body)
		d.t.Errorf("%s, want %d: %s", what, status, body)
		return
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	content, _ := response["content"].(map[string]any)
	switch {
	case content == nil && mediaType == "":
	case content[mediaType] == nil:
		d.t.Errorf("%s: it is %q, which is not described", what, mediaType)
	case mediaType == "text/event-stream", mediaType == "text/csv": // the former does not end; neither is JSON
	default:
		var body bytes.Buffer
		body.ReadFrom(resp.Body)
		d.validate(what, at+"/content/"+strings.ReplaceAll(mediaType, "/", "~1")+"/schema", body.String())
	}
}

// wantAllSeen checks that every described response has been seen.
func (d *description) wantAllSeen() {
	for path, operations := range d.doc["paths"].(map[string]any) {
		for method, operation := range operations.(map[string]any) {
			for status := range operation.(map[string]any)["responses"].(map[string]any) {
				if pointer := []string{"paths", path, method, "responses", status}; !d.seen[fmt.Sprint(pointer)] {
					d.t.Errorf("%s %s never answered %s", method, path, status)
				}
			}
		}
	}
}

// oldest returns the hash of the oldest version that is kept of an origin's robots.txt.
func (w *world) oldest(origin string) string {
	w.t.Helper()
	_, text := w.get("/api/v1/history?origin=" + url.QueryEscape(origin))
	var history struct{ Versions []struct{ SHA256 string } }
	must(w.t, json.Unmarshal([]byte(text), &history))
	return history.Versions[len(history.Versions)-1].SHA256
}

// Every response that openapi.json describes occurs, and is as described.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	d := describe(t)
	key, _ := signingKey(t, 1)
	w := start(t, fmt.Sprintf(`identities: [{name: robot, match: {user_agents: ["Robot*"]}, product_tokens: [Robot], user_agent: Robot/2, from: a@b.example, mode: report, purposes: [search], content_use: full, sign: {keys: [%s], agent: "https://bot.example.org", http: true}}]
overrides:
  - {origin: "https://own.example", verdict: allow, reason: our own, by: Ada, expires: 2026-01-31}
  - {origin: "http://own.example", verdict: disallow, reason: our own, by: Ada, expires: 9999-12-30}`, key))
	var text atomic.Value
	text.Store("User-agent: *\nDisallow: /a\nCrawl-delay: 0\nSitemap: /map\nLicense: /license\nContent-Signal: search=no\n")
	o := newOrigin(t, "http", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text.Load().(string)) }, nil)
	origin := "?origin=" + url.QueryEscape(o.URL)
	none := newOrigin(t, "http", http.NotFound, nil)

	w.curl(o.URL + "/a")
	w.send("DELETE", "/api/v1/policy"+origin)
	text.Store("Content-Usage: search=n\nUser-agent: *\nDisallow: /a\n\nUser-agent: robot\nDisallow:\n")
	for _, page := range []string{o.URL + "/a", o.URL + "/b", none.URL + "/", "http://" + deadAddress + "/", "http://own.example/"} {
		w.curl(page)
		w.curl("-A", "Robot", page)
		page := "?url=" + url.QueryEscape(page)
		d.want(w, 200, "GET", "/api/v1/verdict"+page)
		d.want(w, 200, "GET", "/api/v1/verdict"+page+"&agent=Other&agent=Robot")
		d.want(w, 200, "GET", "/api/v1/verdict"+page+"&identity=robot")
		d.want(w, 200, "GET", "/api/v1/verdict"+page+"&purpose=ai-train&purpose=search&content_use=reference")
	}
	events := w.watch("?after=first")
	for range 4 {
		kind, _, data, err := events.next()
		must(t, err)
		decision, err := json.Marshal(data)
		must(t, err)
		d.validate("an event of type "+kind, "#/components/schemas/Decision", string(decision))
	}
	for _, path := range []string{"policy", "rules", "history"} {
		d.want(w, 200, "GET", "/api/v1/"+path+origin)
		d.want(w, 200, "GET", "/api/v1/"+path+"?origin="+url.QueryEscape(none.URL))
	}
	d.want(w, 200, "GET", "/api/v1/policy?origin=http://"+deadAddress)
	d.want(w, 200, "GET", "/api/v1/history?origin=http://"+deadAddress)
	for _, path := range []string{"policies", "policies?limit=1", "policies?q=" + o.Listener.Addr().String(), "policies?state=unreachable&sort=fetched", "decisions", "decisions?format=csv&outcome=refused", "decisions/stream", "activity", "status", "top", "top?period=day&limit=1", "changes", "identities", "overrides", "pace", "report", "report?since=2d&identity=robot" + strings.Replace(origin, "?", "&", 1), "openapi.json"} {
		d.want(w, 200, "GET", "/api/v1/"+path)
	}
	waitFor(t, func() bool { // counts are written every few seconds
		_, text := w.get("/api/v1/report")
		return strings.Contains(text, `"rule":"Disallow: /a"`) && strings.Contains(text, `"override_reason":"our own"`) && strings.Contains(text, "unreachable\",\"ref")
	}, func() string { _, text := w.get("/api/v1/report"); return text })
	for _, path := range []string{"report", "status", "top", "top?period=day", "changes", "rules" + origin + "&sha256=" + w.oldest(o.URL)} {
		d.want(w, 200, "GET", "/api/v1/"+path)
	}
	d.want(w, 204, "DELETE", "/api/v1/policy"+origin)
	d.want(w, 200, "POST", "/api/v1/reload")

	d.want(w, 400, "GET", "/api/v1/verdict?url=nonsense")
	d.want(w, 400, "GET", "/api/v1/verdict?url=http://nobody.example/&identity=nobody")
	d.want(w, 400, "GET", "/api/v1/verdict?url=http://nobody.example/&purpose=nonsense")
	d.want(w, 400, "GET", "/api/v1/policies?limit=1001")
	d.want(w, 400, "GET", "/api/v1/decisions?limit=0")
	d.want(w, 400, "GET", "/api/v1/report?since=yesterday")
	d.want(w, 400, "GET", "/api/v1/report?format=pdf")
	d.want(w, 400, "GET", "/api/v1/pace?limit=0")
	d.want(w, 400, "GET", "/api/v1/changes?limit=0")
	d.want(w, 400, "GET", "/api/v1/top?limit=101")
	d.want(w, 400, "GET", "/api/v1/top?period=year")
	d.want(w, 400, "GET", "/api/v1/policies?state=nonsense")
	d.want(w, 400, "GET", "/api/v1/policies?sort=nonsense")
	d.want(w, 400, "GET", "/api/v1/decisions?format=pdf")
	d.want(w, 400, "GET", "/api/v1/decisions?verdict=nonsense")
	d.want(w, 400, "GET", "/api/v1/decisions/stream?verdict=nonsense")
	for _, path := range []string{"policy", "rules", "history"} {
		d.want(w, 400, "GET", "/api/v1/"+path)
		d.want(w, 404, "GET", "/api/v1/"+path+"?origin=http://nobody.example")
	}
	d.want(w, 400, "DELETE", "/api/v1/policy")
	d.want(w, 404, "DELETE", "/api/v1/policy?origin=http://nobody.example")
	d.want(w, 403, "DELETE", "/api/v1/policy"+origin, "Origin", "http://foreign.example")
	d.want(w, 403, "POST", "/api/v1/reload", "Origin", "http://foreign.example")
	w.configure("nonsense: 1")
	d.want(w, 422, "POST", "/api/v1/reload")

	secret := start(t, "admin_token: secret")
	for path, operations := range d.doc["paths"].(map[string]any) {
		for method := range operations.(map[string]any) {
			d.want(w, 403, strings.ToUpper(method), path, "Host", "foreign.example")
			d.want(secret, 401, strings.ToUpper(method), path)
		}
	}
	away := start(t, `cache: {store: redis, redis_url: "redis://`+deadAddress+`"}`)
	d.want(away, 500, "GET", "/api/v1/policies")
	d.want(away, 500, "GET", "/api/v1/report")
	d.want(away, 500, "DELETE", "/api/v1/policy"+origin)
	for _, path := range []string{"policy", "rules", "history"} {
		d.want(away, 500, "GET", "/api/v1/"+path+origin)
	}
	d.want(away, 500, "GET", "/api/v1/top?period=day")
	d.want(away, 500, "GET", "/api/v1/changes")
	d.wantAllSeen()
}
