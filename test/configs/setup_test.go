// Package configs tests the examples in configs/: that Kubernetes, Helm, Compose and systemd accept
// them, that their configurations are valid, and that the scrapers that they set up work with
// their proxies.
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

// setup is a proxy as an example sets it up, and a scraper that uses it. The paths are those
// in the proxy's and the scraper's own file systems.
type setup struct {
	name string

	// The proxy's files are in the folder etc; config is the name of its configuration.
	// caFiles are those that `robotsproxy ca` makes.
	etc, config string
	files       map[string]string
	caFiles     map[string]string // path in etc -> ca.pem or ca-key.pem
	environment map[string]string
	trust       string // folder where the proxy writes trust files; "" if the operator distributes them

	health []string      // command of the health check
	grace  time.Duration // from SIGTERM until the platform kills the proxy

	scraper      map[string]string // its environment
	scraperTrust string            // folder of trust files that the scraper sees

	// redirect are the arguments of the command that has the kernel lead connections to
	// the proxy, which runs as the user excepted. Without them, the scraper's environment
	// does.
	redirect []string
	excepted string
}

// setups returns the setups of all examples.
func setups(t *testing.T) []setup {
	t.Helper()
	return slices.Concat(kubernetesSetups(t), chartSetups(t), []setup{composeSetup(t), systemdSetup(t), redirectingService(t)})
}

// settings are the keys of a configuration that the tests need.
type settings struct {
	Listen        string `json:"listen"`
	Transparent   string `json:"transparent"`
	AdminListen   string `json:"admin_listen"`
	DataDir       string `json:"data_dir"`
	ShutdownGrace string `json:"shutdown_grace"`
	HTTPS         struct {
		TrustDir string `json:"trust_dir"`
	} `json:"https"`
}

// settingsOf returns the settings of a configuration, with defaults for keys that it leaves out.
func settingsOf(t *testing.T, text string) settings {
	t.Helper()
	var s settings
	for _, text := range []string{read(t, "full.yaml"), text} {
		must(t, yaml.Unmarshal([]byte(text), &s))
	}
	return s
}

func (s setup) settings(t *testing.T) settings { return settingsOf(t, s.files[s.config]) }

// imageConfig returns the image's configuration and its path in the image.
func imageConfig(t *testing.T) (path, text string) {
	t.Helper()
	return imageSays(t, "ENV ROBOTSPROXY_CONFIG="), read(t, "image.yaml")
}

// imageSays returns the rest of the line of the Dockerfile that begins with these words.
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
	for _, name := range []string{"full.yaml", "image.yaml", "purposes.yaml", "sidecar.yaml"} { // fleet.yaml needs its CA: it is tested as part of a setup
		if out, err := exec.Command(program, "validate", "--config", filepath.Join(examples, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v:\n%s", name, err, out)
		}
	}
}

// The platform must not kill the proxy before shutdown_grace is over.
func TestPlatformWaitsForShutdownGrace(t *testing.T) {
	for _, s := range setups(t) {
		grace, err := time.ParseDuration(s.settings(t).ShutdownGrace)
		must(t, err)
		if s.grace <= grace {
			t.Errorf("%s: the proxy is killed after %v, and shutdown_grace is %v", s.name, s.grace, grace)
		}
	}
}

// wanted are the variables that every scraper needs: both spellings of the proxy variables, and
// the trust variables of common clients.
var wanted = []string{
	"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "ftp_proxy", "FTP_PROXY", "NODE_USE_ENV_PROXY",
	"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "PERL_LWP_SSL_CA_FILE",
}

// wantedWithFiles are variables that name files which only the proxy can make.
var wantedWithFiles = []string{"WGETRC", "PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS"}

// A scraper has the variables that `robotsproxy env` prints.
func TestScrapersEnvironment(t *testing.T) {
	for _, s := range setups(t) {
		t.Run(s.name, func(t *testing.T) {
			if s.redirect != nil {
				if len(s.scraper) > 0 {
					t.Errorf("a scraper that needs no environment has %v", s.scraper)
				}
				return
			}
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

// variables reads lines NAME=VALUE and comments.
func variables(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			all[name] = strings.Trim(value, `"`) // systemd's and a shell's
		}
	}
	return all
}

// trustPaths returns the files and folders by which an environment makes clients trust the CA,
// by the names of the variables.
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

// exitCode returns the exit code of a command that ended with err.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return ended.ExitCode()
	}
	must(t, err)
	return 0
}
