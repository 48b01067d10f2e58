package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// overrideOf is a configuration with one override of a site.
func overrideOf(site *origin, expires string) string {
	return fmt.Sprintf("overrides:\n  - {origin: %q, verdict: disallow, reason: they offer an API, by: Ada, expires: %s}", site.URL, expires)
}

// Whoever meets an override learns why it is there: the client, and readers of the log and the API.
func TestOverridesSayWhy(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	w := start(t, overrideOf(site, "9999-12-30"), "overrides_need_reason: true")
	page := site.URL + "/products/1"

	if r := w.curl(page); r.status != 403 || !strings.Contains(r.body, "the operator's own word on "+site.URL+", by Ada until 9999-12-30: they offer an API\n") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	var problem object
	must(t, json.Unmarshal([]byte(w.curl("-H", "Accept: application/json", page).body), &problem))
	for _, facts := range []object{problem, w.ask("/api/v1/verdict?url=" + url.QueryEscape(page))} {
		facts.want(t, "reason", "override", "override_reason", "they offer an API", "override_by", "Ada", "expires_at", "9999-12-31T00:00:00Z")
	}
	recent, _ := w.ask("/api/v1/decisions?limit=1")["decisions"].([]any)
	if len(recent) != 1 {
		t.Fatalf("recent decisions: %v", recent)
	}
	for _, facts := range []object{w.decision(page), recent[0].(map[string]any)} {
		facts.want(t, "reason", "override", "override_reason", "they offer an API", "override_by", "Ada")
	}
	if warnings := w.log.Lines(`"level":"warn"`); len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
}

// When an override ends, the running proxy asks the site again, and a start and a reload warn.
func TestOverrideThatEnds(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	w := start(t, overrideOf(site, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339Nano)))
	w.log.wait(t, w.exited, `"level":"warn"`, ":2:", "overrides[0].expires: the override of "+site.URL+" appli")

	w.becomes(site.URL+"/products/1", 200, "no_rule")
	last := w.log.Lines(`"message":"request"`)
	if strings.Contains(last[len(last)-1], "override") {
		t.Errorf("logged %s", last[len(last)-1])
	}
	for _, bySignal := range []bool{false, true} {
		w.reload(bySignal, overrideOf(site, "2026-01-31"))
		w.log.wait(t, w.exited, `"level":"warn"`, "applied until 2026-01-31 and no longer does")
	}
}

func TestReloadOfAnOverrideWithoutReason(t *testing.T) {
	t.Parallel()
	site := newOrigin(t, "http", shop(), nil)
	w := start(t, overrideOf(site, "9999-12-30"))
	if line := w.refusedReload("overrides_need_reason: true\noverrides: [{origin: " + site.URL + ", verdict: allow}]"); !strings.Contains(line, ":2:13: overrides[0].reason: it is missing") {
		t.Errorf("logged %s", line)
	}
	w.becomes(site.URL+"/products/1", 403, "override")
}

func overridesThatEnd(t *testing.T, browser context.Context) {
	site := newOrigin(t, "http", shop(), nil)
	w := start(t, overrideOf(site, "9999-12-30"))
	p := w.open(browser, "#/explain?url="+url.QueryEscape(site.URL+"/"))
	p.wantText("#explained", "refused", "Ada", "they offer an API")
	p = w.open(browser, "")
	p.wantText("#live-empty", "No requests yet")
	p.wantText("#signs", "Nothing looks wrong")

	w.reload(false, overrideOf(site, "2026-01-31"))
	p = w.open(browser, "")
	p.click("signs", "!1 override about to end, or over")
	p.wantText("#overrides-rows", site.URL, "they offer an API", "by Ada")
	p.wantText("#overrides-notice", "the override of "+site.URL+" applied until 2026-01-31 and no longer does; write a later date, or remove the override")
}
