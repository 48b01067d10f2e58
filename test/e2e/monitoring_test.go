package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// promtool runs Prometheus's own checks, in configs/prometheus.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	check := exec.Command("promtool", args...)
	check.Dir = filepath.Join("..", "..", "configs", "prometheus")
	check.Stdin = strings.NewReader(stdin)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", check, err, out)
	}
}

// metrics are the names of what the program exposes, those of histograms without
// their endings.
func (w *world) metrics() (names []string, text string) {
	w.t.Helper()
	_, text = w.get("/metrics")
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names, text
}

// busy is a world in which something has happened.
func busy(t *testing.T) *world {
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	w.curl(o.URL + "/cart")
	return w
}

func TestPromtoolFindsNothingAmissInMetrics(t *testing.T) {
	_, text := busy(t).metrics()
	promtool(t, text, "check", "metrics")
}

func TestAlerts(t *testing.T) {
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")

	text, err := os.ReadFile(filepath.Join("..", "..", "configs", "prometheus", "alerts.yml"))
	must(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal(text, &file))
	tests, err := os.ReadFile(filepath.Join("..", "..", "configs", "prometheus", "alerts_test.yml"))
	must(t, err)
	names, _ := busy(t).metrics()
	for _, rule := range file.Groups[0].Rules {
		if rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks something: %+v", rule.Alert, rule)
		}
		if strings.Count(string(tests), rule.Alert) != 2 {
			t.Errorf("%s is not shown both to fire and not to", rule.Alert)
		}
		wantExposed(t, rule.Alert, rule.Expr, names)
	}
}

var metricName = regexp.MustCompile(`\b(robotsproxy|go|process)_\w+`)

// wantExposed looks whether each metric that an expression names is one of those.
func wantExposed(t *testing.T, where, expr string, names []string) {
	t.Helper()
	used := metricName.FindAllString(expr, -1)
	if len(used) == 0 {
		t.Errorf("%s names no metric: %s", where, expr)
	}
	for _, name := range used {
		if !slices.Contains(names, name) && !slices.Contains(names, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("%s names %s, which is not exposed", where, name)
		}
	}
}

func TestGrafanaDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "configs", "grafana", "robotsproxy.json"))
	must(t, err)
	type query struct {
		Datasource struct{ UID string }
		Expr       string
	}
	var dashboard struct {
		Title, UID string
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []query
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	must(t, json.Unmarshal(text, &dashboard))
	names, _ := busy(t).metrics()
	places, ids := map[[2]int]string{}, map[int]bool{}
	rules := "groups: [{name: panels, rules: ["
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("%s: its id %d is another's too", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := places[at]; other != "" || at[0] >= 24 {
					t.Fatalf("%s lies on %s, or beyond the edge, at %v", p.Title, other, at)
				}
				places[at] = p.Title
			}
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			wantExposed(t, p.Title, q.Expr, names)
			if q.Datasource.UID != "${datasource}" {
				t.Errorf("%s asks the data source %s", p.Title, q.Datasource.UID)
			}
			expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			rules += fmt.Sprintf("{record: 'panel:%d', expr: %q},", len(rules), expr)
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			wantExposed(t, "the variable "+v.Name, v.Definition, names)
		}
	}
	file := filepath.Join(t.TempDir(), "panels.yml")
	must(t, os.WriteFile(file, []byte(rules+"]}]"), 0o600))
	promtool(t, "", "check", "rules", file)
}

// What the operator says of Go's collector counts.
func TestCollectorsRoom(t *testing.T) {
	for _, e := range []struct {
		vars           []string
		percent, limit string // the latter "": the container's
	}{
		{nil, "50", ""},
		{[]string{"GOGC=200", "GOMEMLIMIT=256MiB"}, "200", "2.68435456e+08"},
		{[]string{"GOMEMLIMIT=256MiB"}, "50", "2.68435456e+08"},
	} {
		w := newWorld(t)
		w.vars = e.vars
		w.run()
		if got := w.metric("go_gc_gogc_percent"); got != e.percent {
			t.Errorf("%v: the heap may grow by %s %%, want %s", e.vars, got, e.percent)
		}
		if got := w.metric("go_gc_gomemlimit_bytes"); e.limit != "" && got != e.limit {
			t.Errorf("%v: the limit is %s, want %s", e.vars, got, e.limit)
		}
		if got, _ := strconv.ParseFloat(w.metric("process_resident_memory_bytes"), 64); got == 0 || got > 60e6 {
			t.Errorf("%v: %.0f octets are taken at first", e.vars, got)
		}
		w.stop()
	}
}
