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

	"robotsproxy/test/build"
)

var prometheusFolder = filepath.Join("..", "..", "configs", "prometheus")

// promtool runs Prometheus's own checks in a folder.
func promtool(dir, stdin string, args ...string) error {
	check := exec.Command("promtool", args...)
	check.Dir, check.Stdin = dir, strings.NewReader(stdin)
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", check, err, out)
	}
	return nil
}

// metrics returns the names of the metrics that the program exposes, and the whole text. A
// histogram has one name, without suffix.
func (w *world) metrics() (names []string, text string) {
	w.t.Helper()
	_, text = w.get("/metrics")
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names, text
}

// busy returns a world that has judged some requests.
func busy(t *testing.T) *world {
	w := start(t)
	o := newOrigin(t, "http", shop(), nil)
	w.curl(o.URL + "/products/1")
	w.curl(o.URL + "/cart")
	return w
}

func TestPromtoolAcceptsMetrics(t *testing.T) {
	t.Parallel()
	_, text := busy(t).metrics()
	must(t, promtool("", text, "check", "metrics"))
}

// The page on operating has every metric of our own.
func TestPageHasEveryMetric(t *testing.T) {
	t.Parallel()
	names, _ := busy(t).metrics()
	section := readSection(t, "docs/operate.md", "Metrics and API")
	for _, name := range names {
		if strings.HasPrefix(name, "robotsproxy_") && !regexp.MustCompile("`"+name+"[`{]").MatchString(section) {
			t.Errorf("docs/operate.md does not have the metric %s", name)
		}
	}
}

// alertRule is a rule of alerts.yml.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertFile is the form of alerts.yml.
type alertFile struct {
	Groups []alertGroup `yaml:"groups"`
}

type alertGroup struct {
	Name  string      `yaml:"name"`
	Rules []alertRule `yaml:"rules"`
}

func readAlerts(t *testing.T) alertFile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(prometheusFolder, "alerts.yml"))
	must(t, err)
	var file alertFile
	must(t, yaml.UnmarshalWithOptions(text, &file, yaml.Strict()))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) == 0 {
		t.Fatalf("alerts.yml should have one group of alerts, and has %+v", file.Groups)
	}
	return file
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	must(t, promtool(prometheusFolder, "", "check", "rules", "alerts.yml"))
	must(t, promtool(prometheusFolder, "", "test", "rules", "alerts_test.yml"))
	names, _ := busy(t).metrics()
	for _, rule := range readAlerts(t).Groups[0].Rules {
		if rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks a duration, severity, summary or description: %+v", rule.Alert, rule)
		}
		wantExposed(t, rule.Alert, rule.Expr, names)
	}
}

// An alert that fires wrongly, or that never fires, must fail alerts_test.yml.
func TestAlertTestsNoticeBrokenAlerts(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile(filepath.Join(prometheusFolder, "alerts_test.yml"))
	must(t, err)
	run := func(t *testing.T, file alertFile) error {
		t.Helper()
		text, err := yaml.Marshal(file)
		must(t, err)
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), text, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "alerts_test.yml"), tests, 0o600))
		must(t, promtool(dir, "", "check", "rules", "alerts.yml"))
		return promtool(dir, "", "test", "rules", "alerts_test.yml")
	}
	must(t, run(t, readAlerts(t))) // the alerts pass when they are written anew
	for i, rule := range readAlerts(t).Groups[0].Rules {
		for broken, expr := range map[string]string{
			"fires wrongly": "(" + rule.Expr + ") or on() vector(1)",
			"never fires":   "(" + rule.Expr + ") unless on() vector(1)",
		} {
			t.Run(rule.Alert+" "+broken, func(t *testing.T) {
				file := readAlerts(t)
				file.Groups[0].Rules[i].Expr = expr
				if run(t, file) == nil {
					t.Error("alerts_test.yml passes all the same")
				}
			})
		}
	}
}

var metricName = regexp.MustCompile(`\b(robotsproxy|go|process)_\w+`)

// wantExposed checks that every metric in an expression is one of names.
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
	t.Parallel()
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
	if len(dashboard.Panels) == 0 || len(dashboard.Templating.List) == 0 {
		t.Fatal("the dashboard has no panels or no variables")
	}
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
					t.Fatalf("%s overlaps %s, or lies beyond the edge, at %v", p.Title, other, at)
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
	must(t, promtool("", "", "check", "rules", file))
}

// GOGC and GOMEMLIMIT beat the program's own settings of the garbage collector.
func TestMemorySettings(t *testing.T) {
	t.Parallel()
	maxAtStart := 60e6 // octets of memory
	if build.IsRace {
		maxAtStart *= 3
	}
	for _, e := range []struct {
		vars           []string
		percent, limit string // limit "" means the container's
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
		if got, _ := strconv.ParseFloat(w.metric("process_resident_memory_bytes"), 64); got == 0 || got > maxAtStart {
			t.Errorf("%v: the program takes %.0f octets at start", e.vars, got)
		}
		w.stop()
	}
}
