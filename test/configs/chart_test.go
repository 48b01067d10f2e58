package configs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// release is the chart with some values.
type release struct {
	name   string   // in messages
	helm   string   // what helm calls it
	values []string // flags of helm
}

var releases = []release{
	{name: "chart, one proxy", helm: "robotsproxy"},
	{name: "chart, three proxies", helm: "robotsproxy", values: []string{"--set", "replicas=3,secrets.ca=robotsproxy-ca,secrets.redis=robotsproxy-redis"}},
	{name: "chart, fleet", helm: "robotsproxy", values: []string{"--values", absolute("helm/fleet.yaml")}},
	{name: "chart, every value", helm: "bots", values: []string{"--values", absolute("../test/configs/testdata/values.yaml")}},
}

// chart is the folder of the chart.
var chart = absolute("helm/robotsproxy")

// absolute returns the absolute path of a file in the folder of the examples.
func absolute(name string) string {
	path, err := filepath.Abs(filepath.Join(examples, filepath.FromSlash(name)))
	if err != nil {
		panic(err)
	}
	return path
}

// helmProgram returns the file of the program helm, which the go command builds and keeps.
var helmProgram = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "-C", filepath.Join("..", "helm"), "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs helm. It sees no settings of the user, and a cluster of the oldest version that the chart takes.
func helm(t *testing.T, command string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, err := helmProgram()
	must(t, err)
	run := exec.Command(program, slices.Concat([]string{command, "--kube-version", "1.30.0"}, args)...)
	run.Env = []string{"HOME=" + t.TempDir()}
	var out, messages bytes.Buffer
	run.Stdout, run.Stderr = &out, &messages
	err = run.Run()
	return out.String(), messages.String(), err
}

// render returns the objects of the release. A ConfigMap more, called notes, has what helm prints
// after the installation, which helm template leaves out.
func (r release) render(t *testing.T) *cluster {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "robotsproxy")
	must(t, os.CopyFS(copied, os.DirFS(chart)))
	must(t, os.WriteFile(filepath.Join(copied, "templates", "notes.yaml"), []byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {NOTES.txt: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}}
`), 0o600))
	out, messages, err := helm(t, "template", slices.Concat([]string{r.helm, copied}, r.values)...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", r.name, err, messages)
	}
	c := &cluster{configMaps: map[string]*corev1.ConfigMap{}}
	c.read(t, r.name, out)
	if len(c.deployments) != 1 || len(c.services) != 1 {
		t.Fatalf("%s: %d Deployments, %d Services", r.name, len(c.deployments), len(c.services))
	}
	return c
}

// notedPod returns the pod that the notes tell how to set up.
func (c *cluster) notedPod(t *testing.T) (pod corev1.PodTemplateSpec) {
	t.Helper()
	_, after, _ := strings.Cut(c.configMaps["notes"].Data["NOTES.txt"], "\n2. ")
	before, _, _ := strings.Cut(after, "\n3. ")
	_, text, _ := strings.Cut(before, "\n")
	object, err := yaml.YAMLToJSONStrict([]byte(text))
	must(t, err)
	decode(t, "the notes' pod", object, &pod)
	return pod
}

func chartSetups(t *testing.T) []setup {
	t.Helper()
	var all []setup
	for _, r := range releases {
		c := r.render(t)
		s := c.setup(t, r.name, c.deployments[0].Spec.Template, c.notedPod(t))
		if r.helm == "bots" { // in the Secret bots-files
			s.files["example-com-robots.txt"] = "User-agent: *\nDisallow: /\n"
		}
		all = append(all, s)
	}
	return all
}

func TestHelmAcceptsTheChart(t *testing.T) {
	for _, r := range releases {
		if out, messages, err := helm(t, "lint", slices.Concat([]string{"--strict", chart}, r.values)...); err != nil {
			t.Errorf("%s: %v\n%s%s", r.name, err, out, messages)
		}
	}
}

// The values that can't work are refused, with what to do.
func TestChartSaysWhatIsMissing(t *testing.T) {
	for values, want := range map[string]string{
		"replicas=2":                           "2 proxies need a Redis and a CA in common: name a Secret with the key url in secrets.redis",
		"replicas=2,secrets.ca=a":              "2 proxies need a Redis",
		"replicas=2,secrets.redis=a":           "2 proxies need a Redis",
		"metrics.namespace=monitoring":         "name a Secret with the key token in secrets.adminToken",
		"config.listen=:80":                    "config: the chart sets listen itself",
		"config.cache.redis_url=redis://a:1/0": "config: the chart sets cache.redis_url itself",
		"replica=2":                            "additional properties 'replica' not allowed",
		"replicas=0":                           "/replicas",
		"secrets.ca=Not a name":                "/secrets/ca",
		"storage=much":                         "/storage",
		"terminationGracePeriodSeconds=15":     "/terminationGracePeriodSeconds",
	} {
		if out, messages, err := helm(t, "template", "robotsproxy", chart, "--set", values); err == nil || !strings.Contains(messages, want) {
			t.Errorf("%s: %v\n%s%s\nwant %q", values, err, out, messages, want)
		}
	}
}

// testdata/values.yaml and the schema have every value, so that the tests see every line of the templates.
func TestChartsSchemaHasEveryValue(t *testing.T) {
	var schema, defaults, every map[string]any
	for text, into := range map[string]*map[string]any{
		read(t, "helm/robotsproxy/values.schema.json"): &schema,
		read(t, "helm/robotsproxy/values.yaml"):        &defaults,
		readFile(t, "testdata/values.yaml"):            &every,
	} {
		must(t, yaml.Unmarshal([]byte(text), into))
	}
	properties := schema["properties"].(map[string]any)
	delete(properties, "global") // which Helm passes to every chart
	for _, values := range []map[string]any{defaults, every} {
		if got, want := slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(properties)); !slices.Equal(got, want) {
			t.Errorf("values %q, and in the schema %q", got, want)
		}
		for _, section := range []string{"image", "secrets", "metrics"} {
			got := slices.Sorted(maps.Keys(values[section].(map[string]any)))
			if want := slices.Sorted(maps.Keys(properties[section].(map[string]any)["properties"].(map[string]any))); !slices.Equal(got, want) {
				t.Errorf("%s: values %q, and in the schema %q", section, got, want)
			}
		}
	}
}

// With the fleet's values, the chart makes what kubernetes/deployment.yaml has.
func TestChartsFleetIsTheExample(t *testing.T) {
	byHand, rendered := manifests(t), releases[2].render(t)
	pod, want := rendered.deployments[0].Spec.Template.Spec, byHand.deployments[0].Spec.Template.Spec
	image := "robotsproxy:" + chartVersion(t)
	if pod.Containers[0].Image != image {
		t.Errorf("the image is %s, want %s", pod.Containers[0].Image, image)
	}
	want.Containers[0].Image = image
	want.TopologySpreadConstraints[0].LabelSelector = pod.TopologySpreadConstraints[0].LabelSelector
	same(t, "pod", pod, want)
	same(t, "replicas", rendered.deployments[0].Spec.Replicas, byHand.deployments[0].Spec.Replicas)
	same(t, "ports", rendered.services[0].Spec.Ports, byHand.services[0].Spec.Ports)
	same(t, "budget", rendered.budgets[0].Spec.MaxUnavailable, byHand.budgets[0].Spec.MaxUnavailable)
	same(t, "variables", rendered.configMaps["robotsproxy-env"].Data, byHand.configMaps["robotsproxy-env"].Data)

	var config, fleet map[string]any
	must(t, yaml.Unmarshal([]byte(rendered.configMaps["robotsproxy"].Data["config.yaml"]), &config))
	must(t, yaml.Unmarshal([]byte(read(t, "fleet.yaml")), &fleet))
	fleet["listen"] = ":8080"       // over IPv6 too
	fleet["shutdown_grace"] = "30s" // its default
	same(t, "configuration", config, fleet)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		text := func(v any) string { y, _ := yaml.Marshal(v); return string(y) }
		t.Errorf("%s:\n%s\nwant\n%s", what, text(got), text(want))
	}
}

// chartVersion is the version of the program that the chart installs.
func chartVersion(t *testing.T) string {
	t.Helper()
	var chart struct{ AppVersion string }
	must(t, yaml.Unmarshal([]byte(read(t, "helm/robotsproxy/Chart.yaml")), &chart))
	return chart.AppVersion
}

// What the pods of a release refer to is part of it, is a Secret that the values name, or is made by a
// command in the notes.
func TestChartsReferencesLeadSomewhere(t *testing.T) {
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			c := r.render(t)
			name := c.deployments[0].Name
			made := []string{"configmap " + name, "configmap " + name + "-env"}
			for _, claim := range c.claims {
				made = append(made, "claim "+claim.Name)
			}
			if command := "create configmap " + name + "-ca --from-file=ca.pem"; strings.Contains(c.configMaps["notes"].Data["NOTES.txt"], command) {
				made = append(made, "configmap "+name+"-ca")
			}
			var secrets []string
			for _, pod := range []corev1.PodTemplateSpec{c.deployments[0].Spec.Template, c.notedPod(t)} {
				names, others := references(pod)
				secrets = append(secrets, names...)
				for _, other := range others {
					if !slices.Contains(made, other) {
						t.Errorf("nothing makes the %s", other)
					}
				}
			}
			slices.Sort(secrets)
			want := []string{}
			switch r.name {
			case "chart, three proxies", "chart, fleet":
				want = []string{"robotsproxy-ca", "robotsproxy-redis"}
			case "chart, every value":
				want = []string{"bots-admin", "bots-ca", "bots-files", "bots-redis", "registry"}
			}
			if !slices.Equal(secrets, want) {
				t.Errorf("the pods use the Secrets %q, want %q", secrets, want)
			}
			if stored := len(c.claims) > 0; stored != (r.name == "chart, one proxy") {
				t.Errorf("it has a volume: %t", stored)
			}
		})
	}
}

// references returns the Secrets that a pod names, and its ConfigMaps and claims.
func references(pod corev1.PodTemplateSpec) (secrets, others []string) {
	for _, s := range pod.Spec.ImagePullSecrets {
		secrets = append(secrets, s.Name)
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			others = append(others, "claim "+v.PersistentVolumeClaim.ClaimName)
		}
		if v.ConfigMap != nil {
			others = append(others, "configmap "+v.ConfigMap.Name)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				others = append(others, "configmap "+source.ConfigMap.Name)
			}
			if source.Secret != nil {
				secrets = append(secrets, source.Secret.Name)
			}
		}
	}
	for _, container := range containers(pod) {
		for _, v := range container.Env {
			if v.ValueFrom != nil {
				secrets = append(secrets, v.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, from := range container.EnvFrom {
			others = append(others, "configmap "+from.ConfigMapRef.Name)
		}
	}
	return secrets, others
}

// Only pods that have the label reach the proxies, and only Prometheus' namespace their metrics.
func TestChartLetsInNobodyElse(t *testing.T) {
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			c := r.render(t)
			var got []string
			for _, policy := range c.policies {
				if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
					continue
				}
				if !maps.Equal(policy.Spec.PodSelector.MatchLabels, c.deployments[0].Spec.Template.Labels) {
					t.Errorf("a policy guards the pods %v", policy.Spec.PodSelector.MatchLabels)
				}
				for _, rule := range policy.Spec.Ingress {
					if len(rule.From) != 1 || len(rule.Ports) != 1 || rule.From[0].IPBlock != nil {
						t.Fatalf("a rule lets in %v", rule)
					}
					from := rule.From[0]
					if from.PodSelector != nil && from.NamespaceSelector == nil {
						got = append(got, fmt.Sprint(rule.Ports[0].Port.IntVal, " ", from.PodSelector.MatchLabels))
					} else if from.PodSelector == nil && from.NamespaceSelector != nil {
						got = append(got, fmt.Sprint(rule.Ports[0].Port.IntVal, " ", from.NamespaceSelector.MatchLabels))
					}
				}
			}
			settings := settingsOf(t, c.configMaps[c.deployments[0].Name].Data["config.yaml"])
			want, admin := []string{fmt.Sprint("8080 ", c.notedPod(t).Labels)}, "127.0.0.1:9090"
			if r.name == "chart, every value" {
				want, admin = append(want, "9090 map[kubernetes.io/metadata.name:monitoring]"), ":9090"
			}
			if !slices.Equal(got, want) || settings.AdminListen != admin {
				t.Errorf("let in are %q, and admin_listen is %s; want %q and %s", got, settings.AdminListen, want, admin)
			}
		})
	}
}
