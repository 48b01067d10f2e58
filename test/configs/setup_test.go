// Package configs tests the examples in configs/: that Kubernetes, Compose and
// systemd take them, that the configurations in them are valid, and that the
// proxies and scrapers that they set up get along.
package configs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"robotsproxy/test/build"
)

// examples is the folder of the examples.
var examples = filepath.Join("..", "..", "configs")

// program is the file of the built program.
var program string

func TestMain(m *testing.M) { os.Exit(build.RunTests(m, &program)) }

// setup is a proxy as an example sets it up, and a scraper that uses it. Paths are
// those that the two see.
type setup struct {
	name string

	// The proxy's files: its configuration is the one named config, in the folder
	// etc. Others there may be what `robotsproxy ca` makes, by their names.
	etc, config string
	files       map[string]string
	caFiles     map[string]string // path in etc -> ca.pem or ca-key.pem
	environment map[string]string
	trust       string // where it writes what clients trust; "" if the operator hands that out

	health []string      // asks whether it is alive
	grace  time.Duration // from the moment when it is told to end, until it is killed

	scraper      map[string]string // its environment
	scraperTrust string            // a folder that it may read
}

// setups are all those of the examples.
func setups(t *testing.T) []setup {
	t.Helper()
	return slices.Concat(kubernetesSetups(t), []setup{composeSetup(t), systemdSetup(t)})
}

// settings are what the tests want of a configuration.
type settings struct {
	Listen        string `json:"listen"`
	AdminListen   string `json:"admin_listen"`
	DataDir       string `json:"data_dir"`
	ShutdownGrace string `json:"shutdown_grace"`
	HTTPS         struct {
		TrustDir string `json:"trust_dir"`
	} `json:"https"`
}

// settingsOf are those of a configuration, and the defaults for the rest.
func settingsOf(t *testing.T, text string) settings {
	t.Helper()
	var s settings
	for _, text := range []string{read(t, "full.yaml"), text} {
		must(t, yaml.Unmarshal([]byte(text), &s))
	}
	return s
}

func (s setup) settings(t *testing.T) settings { return settingsOf(t, s.files[s.config]) }

// imageConfig is the configuration that the image has, and where it is there.
func imageConfig(t *testing.T) (path, text string) {
	t.Helper()
	return imageSays(t, "ENV ROBOTSPROXY_CONFIG="), read(t, "image.yaml")
}

// imageSays is the rest of the one line of the Dockerfile that begins so.
func imageSays(t *testing.T, begin string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "../Dockerfile")) {
		if rest, found := strings.CutPrefix(line, begin); found {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the Dockerfile has no line %s…", begin)
	return ""
}

func TestConfigurationsAreValid(t *testing.T) {
	for _, s := range setups(t) {
		t.Run(s.name, func(t *testing.T) {
			p := s.place(t)
			if out, err := p.command("validate", "--config", p.config).CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
	for _, name := range []string{"full.yaml", "image.yaml", "sidecar.yaml"} { // fleet.yaml is part of a setup, as it wants its CA
		if out, err := exec.Command(program, "validate", "--config", filepath.Join(examples, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v:\n%s", name, err, out)
		}
	}
}

// A platform that kills too early breaks off what shutdown_grace promises to wait
// for.
func TestThereIsTimeToEnd(t *testing.T) {
	for _, s := range setups(t) {
		grace, err := time.ParseDuration(s.settings(t).ShutdownGrace)
		must(t, err)
		if s.grace <= grace {
			t.Errorf("%s: the proxy is killed after %v, and shutdown_grace is %v", s.name, s.grace, grace)
		}
	}
}

// wanted are the variables that every scraper gets: for the proxy both spellings,
// and for trust those of the common clients.
var wanted = []string{
	"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "ftp_proxy", "FTP_PROXY", "NODE_USE_ENV_PROXY",
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "PERL_LWP_SSL_CA_FILE",
}

// wantedWithFiles are those that name files which the proxy alone makes.
var wantedWithFiles = []string{"WGETRC", "PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS"}

// A scraper has what `robotsproxy env` says.
func TestScrapersEnvironment(t *testing.T) {
	for _, s := range setups(t) {
		t.Run(s.name, func(t *testing.T) {
			says := s.place(t).env()
			for name, value := range s.scraper {
				if value != says[name] {
					t.Errorf("%s is %q, and by `robotsproxy env` %q", name, value, says[name])
				}
			}
			names := wanted
			if s.trust != "" {
				names = slices.Concat(wanted, wantedWithFiles)
			}
			for _, name := range names {
				if s.scraper[name] == "" {
					t.Errorf("%s is not set", name)
				}
			}
		})
	}
}

// variables are those of a file with lines NAME=VALUE, and comments.
func variables(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			all[name] = value
		}
	}
	return all
}

// trustPaths are the files and folders of an environment that make a client trust
// the CA, by the variable that names them.
func trustPaths(environment map[string]string) map[string]string {
	paths := map[string]string{}
	for name, value := range environment {
		switch _, store, _ := strings.Cut(value, "trustStore="); {
		case name == "JAVA_TOOL_OPTIONS":
			paths[name], _, _ = strings.Cut(store, " ")
		case name == "PHP_INI_SCAN_DIR":
			paths[name] = strings.TrimPrefix(value, ":")
		case strings.HasPrefix(value, "/"):
			paths[name] = value
		}
	}
	return paths
}

// read reads an example by its path in the folder of the examples.
func read(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(examples, filepath.FromSlash(name)))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// exitCode is that of a command that has been run.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	must(t, err)
	return 0
}
