package configs

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// cluster has the objects of some manifests.
type cluster struct {
	text        string // of all manifests
	configMaps  map[string]*corev1.ConfigMap
	claims      []*corev1.PersistentVolumeClaim
	deployments []*appsv1.Deployment
	jobs        []*batchv1.Job
	cronJobs    []*batchv1.CronJob
	services    []*corev1.Service
	budgets     []*policyv1.PodDisruptionBudget
	policies    []*networkingv1.NetworkPolicy
}

// manifests reads all files in kubernetes/, as strictly as an API server does with
// --validate=strict. An unknown kind of object fails the test.
func manifests(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{configMaps: map[string]*corev1.ConfigMap{}}
	files, err := filepath.Glob(filepath.Join(examples, "kubernetes", "*.yaml"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there are no manifests")
	}
	for _, file := range files {
		c.read(t, file, readFile(t, file))
	}
	return c
}

// read adds the objects of a manifest, which is called name in messages.
func (c *cluster) read(t *testing.T, name, manifest string) {
	t.Helper()
	c.text += manifest
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object, err := yaml.YAMLToJSONStrict([]byte(document + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(object) != "null" {
			c.add(t, name, object)
		}
	}
}

func (c *cluster) add(t *testing.T, file string, object []byte) {
	t.Helper()
	var kind metav1.TypeMeta
	must(t, json.UnmarshalCaseSensitivePreserveInts(object, &kind))
	var into any
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ConfigMap":
		m := &corev1.ConfigMap{}
		into = m
		defer func() { c.configMaps[m.Name] = m }()
	case "v1 PersistentVolumeClaim":
		into = appended(&c.claims)
	case "v1 Service":
		into = appended(&c.services)
	case "apps/v1 Deployment":
		into = appended(&c.deployments)
	case "batch/v1 Job":
		into = appended(&c.jobs)
	case "batch/v1 CronJob":
		into = appended(&c.cronJobs)
	case "policy/v1 PodDisruptionBudget":
		into = appended(&c.budgets)
	case "networking.k8s.io/v1 NetworkPolicy":
		into = appended(&c.policies)
	default:
		t.Fatalf("%s: the test does not know the kind %v", file, kind)
	}
	decode(t, file+": "+kind.Kind, object, into)
}

// decode decodes an object, or a part of one, and fails the test at an unknown or repeated field.
func decode(t *testing.T, name string, object []byte, into any) {
	t.Helper()
	strict, err := json.UnmarshalStrict(object, into)
	must(t, err)
	for _, err := range strict {
		t.Errorf("%s: %v", name, err)
	}
}

// appended appends a new element to a list and returns it.
func appended[T any](list *[]*T) *T {
	element := new(T)
	*list = append(*list, element)
	return element
}

// pods returns the templates of all pods, by kind and name of the objects that have them.
func (c *cluster) pods() map[string]corev1.PodTemplateSpec {
	pods := map[string]corev1.PodTemplateSpec{}
	for _, d := range c.deployments {
		pods["Deployment "+d.Name] = d.Spec.Template
	}
	for _, j := range c.jobs {
		pods["Job "+j.Name] = j.Spec.Template
	}
	for _, j := range c.cronJobs {
		pods["CronJob "+j.Name] = j.Spec.JobTemplate.Spec.Template
	}
	return pods
}

// allPods returns the templates of all pods in the manifests and in the chart's releases.
func allPods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := manifests(t).pods()
	for _, r := range releases {
		for name, pod := range r.render(t).pods() {
			all[r.name+", "+name] = pod
		}
	}
	return all
}

func containers(pod corev1.PodTemplateSpec) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// named returns a pod's container by its name, or an empty one if there is none.
func named(pod corev1.PodTemplateSpec, name string) corev1.Container {
	all := containers(pod)
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return all[i]
	}
	return corev1.Container{}
}

// kubernetesSetups returns three setups: a scraper with a sidecar, one whose connections are
// led to its sidecar, and one that uses the proxies of a Deployment.
func kubernetesSetups(t *testing.T) []setup {
	t.Helper()
	c := manifests(t)
	pods := c.pods()
	sidecar, transparent, fleet := pods["CronJob scraper"], pods["CronJob transparent-scraper"], pods["Deployment robotsproxy"]
	return []setup{
		c.setup(t, "kubernetes, sidecar", sidecar, sidecar),
		c.setup(t, "kubernetes, transparent", transparent, transparent),
		c.setup(t, "kubernetes, fleet", fleet, pods["Job scraper"]),
	}
}

func (c *cluster) setup(t *testing.T, name string, proxyPod, scraperPod corev1.PodTemplateSpec) setup {
	t.Helper()
	proxy, scraper := named(proxyPod, "robotsproxy"), named(scraperPod, "scraper")
	config, _ := imageConfig(t)
	s := setup{
		name: name, etc: path.Dir(config), config: path.Base(config), caFiles: map[string]string{},
		environment: map[string]string{},
		health:      proxy.StartupProbe.Exec.Command,
		grace:       c.grace(proxyPod, proxy),
		scraper:     map[string]string{},
	}
	c.mount(&s, proxyPod, proxy)
	s.trust = settingsOf(t, s.files[s.config]).HTTPS.TrustDir
	if redirect := named(proxyPod, "redirect"); redirect.Name != "" {
		s.redirect, s.excepted = redirect.Args, fmt.Sprint(*proxy.SecurityContext.RunAsUser)
	}
	secrets := map[string]string{"url": "redis://127.0.0.1:1/0", "token": "a-token"} // nobody listens there
	for _, v := range proxy.Env {
		if s.environment[v.Name] = v.Value; v.ValueFrom != nil {
			s.environment[v.Name] = secrets[v.ValueFrom.SecretKeyRef.Key]
		}
	}
	for _, from := range scraper.EnvFrom {
		maps.Copy(s.scraper, c.configMaps[from.ConfigMapRef.Name].Data)
	}
	for _, m := range scraper.VolumeMounts {
		if m.Name == "trust" && m.SubPath == "" {
			s.scraperTrust = m.MountPath
		}
	}
	return s
}

// mount finds the files in the folder of the proxy's configuration.
func (c *cluster) mount(s *setup, pod corev1.PodTemplateSpec, proxy corev1.Container) {
	for _, m := range proxy.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			switch {
			case m.Name != v.Name || m.MountPath != s.etc:
			case v.ConfigMap != nil:
				s.files = c.configMaps[v.ConfigMap.Name].Data
			case v.Projected != nil:
				for _, source := range v.Projected.Sources {
					if source.ConfigMap != nil {
						s.files = c.configMaps[source.ConfigMap.Name].Data
					}
					if source.Secret != nil {
						for _, item := range source.Secret.Items {
							s.caFiles[item.Path] = item.Key
						}
					}
				}
			}
		}
	}
}

// grace is how long the proxy has from SIGTERM on, when preStop is over.
func (c *cluster) grace(pod corev1.PodTemplateSpec, proxy corev1.Container) time.Duration {
	seconds := *pod.Spec.TerminationGracePeriodSeconds
	if proxy.Lifecycle != nil {
		seconds -= proxy.Lifecycle.PreStop.Sleep.Seconds
	}
	return time.Duration(seconds) * time.Second
}

func TestConfigMapsAreTheExamples(t *testing.T) {
	c := manifests(t)
	for name, file := range map[string]string{"robotsproxy-sidecar": "sidecar.yaml", "robotsproxy": "fleet.yaml"} {
		if m := c.configMaps[name]; m == nil || m.Data["config.yaml"] != read(t, file) {
			t.Errorf("the ConfigMap %s is not %s", name, file)
		}
	}
}

func TestPodsAreRestricted(t *testing.T) {
	for name, pod := range allPods(t) {
		spec := pod.Spec
		if s := spec.SecurityContext; s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s is not run with the runtime's seccomp profile", name)
		}
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			t.Errorf("%s has a service account's token", name)
		}
		for _, c := range containers(pod) {
			s := c.SecurityContext
			var added []corev1.Capability
			if c.Name == "redirect" { // which needs root for its capability
				added = []corev1.Capability{"NET_ADMIN"}
			} else if !isTrue(s.RunAsNonRoot) && !isTrue(spec.SecurityContext.RunAsNonRoot) {
				t.Errorf("%s, %s may run as root", name, c.Name)
			}
			switch {
			case !isTrue(s.ReadOnlyRootFilesystem):
				t.Errorf("%s, %s: the root file system can be written", name, c.Name)
			case s.AllowPrivilegeEscalation == nil, *s.AllowPrivilegeEscalation, s.Capabilities == nil,
				!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}), !slices.Equal(s.Capabilities.Add, added):
				t.Errorf("%s, %s may have capabilities", name, c.Name)
			}
		}
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

// The CA's key is in a Secret or in the proxy's data folder. No other container may mount them.
func TestOnlyTheProxyHasTheKey(t *testing.T) {
	secret, others := 0, 0 // volumes of the proxy alone, and containers beside it or without it
	for name, pod := range allPods(t) {
		private := []string{}
		for _, m := range named(pod, "robotsproxy").VolumeMounts {
			if m.Name != "trust" {
				private = append(private, m.Name)
			}
		}
		for _, v := range pod.Spec.Volumes {
			if v.Secret != nil || v.Projected != nil {
				private = append(private, v.Name)
			}
		}
		secret += len(private)
		for _, c := range containers(pod) {
			if c.Name == "robotsproxy" {
				continue
			}
			others++
			for _, m := range c.VolumeMounts {
				if slices.Contains(private, m.Name) || !m.ReadOnly {
					t.Errorf("%s: %s has the volume %s (read-only: %v)", name, c.Name, m.Name, m.ReadOnly)
				}
			}
			for _, v := range c.Env {
				if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
					t.Errorf("%s: %s has a secret in %s", name, c.Name, v.Name)
				}
			}
		}
	}
	if secret < 2 || others < 2 { // of the sidecar and of the fleet
		t.Errorf("the manifests have %d volumes for proxies alone and %d other containers", secret, others)
	}
}

func TestSidecarStartsFirst(t *testing.T) {
	for name, first := range map[string][]string{"scraper": {"robotsproxy"}, "transparent-scraper": {"redirect", "robotsproxy"}} {
		pod := manifests(t).pods()["CronJob "+name]
		var names []string
		for _, c := range pod.Spec.InitContainers {
			names = append(names, c.Name)
			if isSidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways; isSidecar != (c.Name == "robotsproxy") {
				t.Errorf("%s: %s is a native sidecar: %v", name, c.Name, isSidecar)
			}
		}
		if !slices.Equal(names, first) {
			t.Errorf("%s: before it, %q start, want %q", name, names, first)
		}
	}
}

// The connections of all containers but the proxy are led to its door. Nothing tells the
// scraper of a proxy, and it has only what makes it trust the CA.
func TestRedirectionLeadsToTheDoor(t *testing.T) {
	for _, s := range setups(t) {
		if s.redirect == nil {
			continue
		}
		door := netip.MustParseAddrPort(s.settings(t).Transparent)
		if want := fmt.Sprintf("redirect install --to %d --except-uid %s", door.Port(), s.excepted); s.name == "kubernetes, transparent" && strings.Join(s.redirect, " ") != want {
			t.Errorf("it runs %q, want %q", s.redirect, want)
		}
		if !door.Addr().IsLoopback() {
			t.Errorf("%s: the door is open to others, at %v", s.name, door)
		}
	}
	pod := manifests(t).pods()["CronJob transparent-scraper"]
	excepted := *named(pod, "robotsproxy").SecurityContext.RunAsUser
	scraper := named(pod, "scraper")
	if *scraper.SecurityContext.RunAsUser == excepted {
		t.Errorf("the scraper runs as the user %d, which is excepted", excepted)
	}
	if len(scraper.Env) > 0 || len(scraper.EnvFrom) > 0 {
		t.Error("the scraper has an environment")
	}
	for _, m := range scraper.VolumeMounts {
		if m.Name != "trust" || m.SubPath != "ca-bundle.pem" {
			t.Errorf("the scraper has %v", m)
		}
	}
}

// Every probe runs the health check of the program in the image.
func TestProbesRunTheProgram(t *testing.T) {
	entrypoint := imageSays(t, "ENTRYPOINT ")
	proxies := 0
	for name, pod := range allPods(t) {
		c := named(pod, "robotsproxy")
		if c.Name == "" {
			continue
		}
		proxies++
		if c.StartupProbe == nil || c.ReadinessProbe == nil {
			t.Errorf("%s has no startup or no readiness probe", name)
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe == nil {
				continue
			}
			if want := []string{strings.Trim(entrypoint, `["]`), "healthcheck"}; !slices.Equal(probe.Exec.Command, want) {
				t.Errorf("%s: a probe runs %q, want %q", name, probe.Exec.Command, want)
			}
			if probe.TimeoutSeconds <= 5 {
				t.Errorf("%s: a probe is ended after %d seconds, and healthcheck waits for 5", name, probe.TimeoutSeconds)
			}
		}
	}
	if want := 3 + len(releases); proxies != want {
		t.Errorf("%d pods have a proxy, want %d: the sidecars', the fleet's and the chart's", proxies, want)
	}
}

// Everything that pods refer to is in the manifests or made by a command in their comments.
func TestReferencesLeadSomewhere(t *testing.T) {
	c := manifests(t)
	wantMade := func(kind, name string) {
		if command := "kubectl create " + kind + " " + name + " "; kind == "configmap" && c.configMaps[name] != nil {
			return
		} else if !strings.Contains(c.text, "#   "+command) {
			t.Errorf("nothing makes the %s %s", kind, name)
		}
	}
	for _, pod := range c.pods() {
		for _, v := range pod.Spec.Volumes {
			if v.ConfigMap != nil {
				wantMade("configmap", v.ConfigMap.Name)
			}
			if v.Projected == nil {
				continue
			}
			for _, source := range v.Projected.Sources {
				if source.ConfigMap != nil {
					wantMade("configmap", source.ConfigMap.Name)
				}
				if source.Secret != nil {
					wantMade("secret generic", source.Secret.Name)
				}
			}
		}
		for _, container := range containers(pod) {
			for _, v := range container.Env {
				if v.ValueFrom != nil {
					wantMade("secret generic", v.ValueFrom.SecretKeyRef.Name)
				}
			}
			for _, from := range container.EnvFrom {
				wantMade("configmap", from.ConfigMapRef.Name)
			}
		}
	}
}

func TestServiceLeadsToTheProxies(t *testing.T) {
	manifests(t).wantServed(t)
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) { r.render(t).wantServed(t) })
	}
}

// wantServed checks that the Service, and the variables of scrapers, lead to the proxies of the only
// Deployment.
func (c *cluster) wantServed(t *testing.T) {
	t.Helper()
	deployment, service := c.deployments[0], c.services[0]
	pod := deployment.Spec.Template
	selectors := []map[string]string{service.Spec.Selector, deployment.Spec.Selector.MatchLabels}
	for _, b := range c.budgets {
		selectors = append(selectors, b.Spec.Selector.MatchLabels)
	}
	for _, s := range selectors {
		if !maps.Equal(s, pod.Labels) {
			t.Errorf("the Service, the Deployment and its budget don't select the same pods: %v", selectors)
		}
	}
	port := named(pod, "robotsproxy").Ports[0]
	listen := settingsOf(t, c.configMaps[deployment.Name].Data["config.yaml"]).Listen
	if service.Spec.Ports[0].TargetPort.StrVal != port.Name || !strings.HasSuffix(listen, ":8080") ||
		port.ContainerPort != 8080 || service.Spec.Ports[0].Port != 8080 {
		t.Error("the Service does not lead to the port of the proxies")
	}
	url := "http://" + service.Name + ":8080"
	if got := c.configMaps[deployment.Name+"-env"].Data["http_proxy"]; got != url {
		t.Errorf("the scraper's proxy is %s, want %s", got, url)
	}
	if service.Spec.Type != "" && service.Spec.Type != corev1.ServiceTypeClusterIP || pod.Spec.HostNetwork || port.HostPort != 0 {
		t.Error("the proxies can be reached from outside the cluster")
	}
}

// The scraper can reach only the proxies, and DNS to find them.
func TestScraperHasNoOtherWayOut(t *testing.T) {
	c := manifests(t)
	c.wantNoOtherWayOut(t, c.pods()["Job scraper"])
	for _, r := range releases {
		t.Run(r.name, func(t *testing.T) {
			c := r.render(t)
			c.wantNoOtherWayOut(t, c.notedPod(t))
		})
	}
}

func (c *cluster) wantNoOtherWayOut(t *testing.T, scraper corev1.PodTemplateSpec) {
	t.Helper()
	closed := false
	for _, policy := range c.policies {
		if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			continue
		}
		closed = closed || maps.Equal(policy.Spec.PodSelector.MatchLabels, scraper.Labels)
		for _, rule := range policy.Spec.Egress {
			wantNarrow(t, rule, c.deployments[0].Spec.Template.Labels)
		}
	}
	if !closed {
		t.Error("no policy restricts where the scraper may connect to")
	}
}

func wantNarrow(t *testing.T, rule networkingv1.NetworkPolicyEgressRule, fleet map[string]string) {
	t.Helper()
	if len(rule.To) != 1 || len(rule.Ports) == 0 || rule.To[0].PodSelector == nil || rule.To[0].IPBlock != nil {
		t.Errorf("an egress rule allows more than the ports of some pods: %v", rule)
		return
	}
	wantPort := int32(53)
	if to := rule.To[0]; to.NamespaceSelector == nil {
		wantPort = 8080
		if !maps.Equal(to.PodSelector.MatchLabels, fleet) {
			t.Errorf("an egress rule leads to the pods %v", to.PodSelector.MatchLabels)
		}
	} else if to.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "kube-system" {
		t.Errorf("an egress rule leads to the namespace %v", to.NamespaceSelector)
	}
	for _, port := range rule.Ports {
		if port.Port == nil || port.Port.IntVal != wantPort || port.EndPort != nil {
			t.Errorf("an egress rule leads to the port %v, want %d", port.Port, wantPort)
		}
	}
}
