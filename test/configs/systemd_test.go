package configs

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unit has a unit's settings by key. A key may have several values.
type unit map[string][]string

func parseUnit(text string) unit {
	u := unit{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u
}

const installed = "/usr/local/bin/robotsproxy"

func systemdSetup(t *testing.T) setup {
	t.Helper()
	u := parseUnit(read(t, "systemd/robotsproxy.service"))
	config := strings.TrimPrefix(u["Environment"][0], "ROBOTSPROXY_CONFIG=")
	grace, err := time.ParseDuration(u["TimeoutStopSec"][0] + "s")
	must(t, err)
	s := setup{
		name: "systemd", etc: path.Dir(config), config: path.Base(config),
		files:  map[string]string{path.Base(config): read(t, "systemd/config.yaml")},
		health: []string{installed, "healthcheck"},
		grace:  grace,
	}
	s.trust = s.settings(t).HTTPS.TrustDir
	s.scraperTrust = s.trust
	s.scraper = variables(read(t, "systemd/robotsproxy.env"))
	return s
}

// redirectingService is the service with robotsproxy-redirect.service, as the latter's
// comment has it installed.
func redirectingService(t *testing.T) setup {
	t.Helper()
	s := systemdSetup(t)
	s.name, s.scraper, s.excepted = "systemd, transparent", nil, "65532"
	s.files = map[string]string{s.config: strings.Replace(s.files[s.config], "\n# transparent:", "\ntransparent:", 1)}
	u := parseUnit(read(t, "systemd/robotsproxy-redirect.service"))
	if !slices.Equal(u["Environment"], parseUnit(read(t, "systemd/robotsproxy.service"))["Environment"]) {
		t.Errorf("the redirection has the environment %q", u["Environment"])
	}
	// The number of the user is as systemd-sysusers chooses.
	s.redirect = strings.Fields(strings.Replace(u["ExecStart"][0], "--except-uid robotsproxy", "--except-uid "+s.excepted, 1))[1:]
	return s
}

// The redirection excepts the user that the service runs as, and that systemd-sysusers makes.
func TestRedirectingServiceExceptsTheProxy(t *testing.T) {
	user := parseUnit(read(t, "systemd/robotsproxy.service"))["User"][0]
	u := parseUnit(read(t, "systemd/robotsproxy-redirect.service"))
	if !slices.Equal(u["ExecStart"], []string{installed + " redirect install --except-uid " + user}) {
		t.Errorf("it runs %q", u["ExecStart"])
	}
	if !slices.Equal(u["ExecStop"], []string{installed + " redirect remove"}) {
		t.Errorf("at its end it runs %q", u["ExecStop"])
	}
	if !strings.Contains(read(t, "systemd/sysusers.conf"), "\nu "+user+" - ") {
		t.Errorf("systemd-sysusers does not make the user %s", user)
	}
	if _, err := exec.LookPath("systemd-sysusers"); err != nil {
		t.Skip("this machine has no systemd-sysusers; install Debian's package systemd")
	}
	file, err := filepath.Abs(filepath.Join(examples, "systemd", "sysusers.conf"))
	must(t, err)
	if out, err := exec.Command("systemd-sysusers", "--dry-run", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-sysusers: %v\n%s", err, out)
	}
}

// The unit makes the folders that the configuration names. Clients can read only one of them.
func TestServicesFolders(t *testing.T) {
	u := parseUnit(read(t, "systemd/robotsproxy.service"))
	s := systemdSetup(t)
	for _, want := range []struct{ key, folder string }{
		{"StateDirectory", strings.TrimPrefix(s.settings(t).DataDir, "/var/lib/")},
		{"StateDirectoryMode", "0700"},
		{"RuntimeDirectory", strings.TrimPrefix(s.trust, "/run/")},
		{"RuntimeDirectoryMode", "0755"},
		{"ConfigurationDirectory", strings.TrimPrefix(s.etc, "/etc/")},
		{"DynamicUser", "yes"},
	} {
		if !slices.Equal(u[want.key], []string{want.folder}) {
			t.Errorf("%s is %v, want %q", want.key, u[want.key], want.folder)
		}
	}
	if u["RuntimeDirectoryPreserve"] != nil {
		t.Error("with DynamicUser=, systemd makes a runtime directory private that it preserves")
	}
}

func TestUnitsRunTheProgram(t *testing.T) {
	u := parseUnit(read(t, "systemd/robotsproxy.service"))
	p := systemdSetup(t).place(t)
	expand := strings.NewReplacer("${ROBOTSPROXY_CONFIG}", p.config)
	reload := strings.Fields(expand.Replace(u["ExecReload"][0]))
	if out, err := p.command(reload[1:]...).CombinedOutput(); err != nil || reload[0] != installed {
		t.Errorf("%v: %v:\n%s", reload, err, out)
	}
	p.write(filepath.Join(p.etc, p.setup.config), "lisen: 127.0.0.1:80")
	if code := exitCode(t, p.command(reload[1:]...).Run()); code == 0 {
		t.Error("a reload of a configuration with mistakes does not fail")
	}
	if code := exitCode(t, p.command("serve").Run()); !slices.Equal(u["RestartPreventExitStatus"], []string{"2"}) || code != 2 {
		t.Errorf("a configuration with mistakes ends the program with %d, which systemd tries again", code)
	}
	if !slices.Equal(u["ExecStart"], []string{installed + " serve"}) || !slices.Equal(u["Type"], []string{"notify"}) {
		t.Errorf("it runs %q as a service of type %q", u["ExecStart"], u["Type"])
	}
}

// analyze runs systemd-analyze on the service, and for verify on another one that has the
// drop-in. The units name the program where the test has built it.
func analyze(t *testing.T, verb string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("this machine has no systemd-analyze; install Debian's package systemd")
	}
	dir := t.TempDir()
	dropIn := filepath.Join(dir, "scraper.service.d")
	must(t, os.Mkdir(dropIn, 0o755))
	for name, text := range map[string]string{
		"robotsproxy.service":          strings.ReplaceAll(read(t, "systemd/robotsproxy.service"), installed, program),
		"robotsproxy.socket":           read(t, "systemd/robotsproxy.socket"),
		"robotsproxy-redirect.service": strings.ReplaceAll(read(t, "systemd/robotsproxy-redirect.service"), installed, program),
		"scraper.service":              "[Service]\nExecStart=/bin/true\n",
		"scraper.service.d/robotsproxy.conf": strings.ReplaceAll(read(t, "systemd/scraper.service.d/robotsproxy.conf"),
			"/etc/robotsproxy/robotsproxy.env", filepath.Join(dir, "robotsproxy.env")),
		"robotsproxy.env": read(t, "systemd/robotsproxy.env"),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	args := slices.Concat([]string{verb}, flags, []string{filepath.Join(dir, "robotsproxy.service"), filepath.Join(dir, "robotsproxy-redirect.service")})
	if verb == "verify" {
		args = append(args, filepath.Join(dir, "scraper.service"), filepath.Join(dir, "robotsproxy.socket"))
	}
	command := exec.Command("systemd-analyze", args...)
	command.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v:\n%s", command, err, out)
	}
	return string(out)
}

func TestUnitsAreValid(t *testing.T) {
	if out := analyze(t, "verify", "--man=no"); out != "" {
		t.Errorf("systemd warns:\n%s", out)
	}
}

// The socket that systemd holds is that of the configuration. The proxy takes it from a
// program that speaks for systemd.
func TestServiceTakesItsSocket(t *testing.T) {
	u := parseUnit(read(t, "systemd/robotsproxy.socket"))
	listen := systemdSetup(t).settings(t).Listen
	if !slices.Equal(u["ListenStream"], []string{listen}) || !slices.Equal(u["FileDescriptorName"], []string{"listen"}) {
		t.Fatalf("the socket is at %v and called %v; the configuration says %s", u["ListenStream"], u["FileDescriptorName"], listen)
	}
	if requires := parseUnit(read(t, "systemd/robotsproxy.service"))["Requires"]; !slices.Equal(requires, []string{"robotsproxy.socket"}) {
		t.Errorf("the service requires %v", requires)
	}
	if _, err := exec.LookPath("systemd-socket-activate"); err != nil {
		t.Skip("this machine has no systemd-socket-activate; install Debian's package systemd")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := free.Addr().String()
	must(t, free.Close())
	command := exec.Command("systemd-socket-activate", "--listen="+address, "--fdname="+u["FileDescriptorName"][0],
		program, "serve", "--listen", address, "--admin-listen", "", "--data-dir", t.TempDir())
	must(t, command.Start()) // it becomes the proxy when a client comes
	defer func() {
		must(t, command.Process.Signal(syscall.SIGTERM))
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + address)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("the proxy's own page: %s", resp.Status)
			}
			return
		}
		if time.Now().After(deadline) { // systemd-socket-activate has not listened so far
			t.Fatal(err)
		}
	}
}

// systemd rates a service's exposure from 0 to 10.
func TestServiceIsSandboxed(t *testing.T) {
	analyze(t, "security", "--offline=true", "--threshold=15") // tenths
}

// A scraper with the drop-in reaches only this machine's loopback, where the proxy listens.
func TestDropInLeavesNoOtherWayOut(t *testing.T) {
	u := parseUnit(read(t, "systemd/scraper.service.d/robotsproxy.conf"))
	if !slices.Equal(u["IPAddressDeny"], []string{"any"}) || !slices.Equal(u["IPAddressAllow"], []string{"localhost"}) {
		t.Errorf("it may reach %v", u["IPAddressAllow"])
	}
	for _, key := range []string{"Requires", "After"} {
		if !slices.Equal(u[key], []string{"robotsproxy.service"}) {
			t.Errorf("%s is %v", key, u[key])
		}
	}
	if host := systemdSetup(t).scraper["http_proxy"]; host != "http://"+settingsOf(t, read(t, "systemd/config.yaml")).Listen {
		t.Errorf("the scraper's proxy is %s", host)
	}
	if file := u["EnvironmentFile"]; !slices.Equal(file, []string{"/etc/robotsproxy/robotsproxy.env"}) {
		t.Errorf("its environment is in %v", file)
	}
}
