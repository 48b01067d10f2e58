package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"robotsproxy/certs"
	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/listen"
	"robotsproxy/internal/redirected"
)

// loadText loads a file of this content.
func loadText(t testing.TB, text string, settings ...strictyaml.Setting) (Config, error) {
	t.Helper()
	return Parse(Default(), "FILE", []byte(text), settings...)
}

// isDefault reports whether each value of a configuration is its default, whichever file it is from.
func isDefault(c Config) bool {
	c.file = nil
	return reflect.DeepEqual(c, Default())
}

func TestEmptyFileIsTheDefaults(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "%YAML 1.2\n---\n", "\ufeff", "robots:\nlog: # all commented out\n  # level: info\n", "{}\n"} {
		c, err := loadText(t, text)
		if err != nil || !isDefault(c) {
			t.Errorf("%q: error %v, or not the defaults", text, err)
		}
	}
	if c, err := Load(Default(), ""); err != nil || !isDefault(c) {
		t.Errorf("no file: error %v, or not the defaults", err)
	}
}

func TestNoSuchFile(t *testing.T) {
	_, err := Load(Default(), "/nowhere/robotsproxy.yaml")
	if !errors.As(err, new(strictyaml.Errors)) || !strings.Contains(err.Error(), "/nowhere/robotsproxy.yaml") {
		t.Errorf("error %v", err)
	}
}

func TestFullExampleIsTheDefaults(t *testing.T) {
	path := filepath.Join("..", "configs", "full.yaml")
	c, err := Load(Default(), path)
	if err != nil {
		t.Fatal(err)
	}
	if !isDefault(c) {
		t.Errorf("got  %+v\nwant %+v", c, Default())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := strictyaml.New(path, text)
	file.Decode(&c)
	at := func(key string) strictyaml.Position { return file.Locate(keyerr.New(key, "here"))[0].Position }
	for _, key := range strictyaml.AllKeys(c) {
		section := key.Path[:max(0, strings.LastIndex(key.Path, "."))]
		if at(key.Path) == at(section) {
			t.Errorf("%s is not in %s", key.Path, path)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Setenv("CONFIG_TEST_NAME", "bot: [x] # y")
	t.Setenv("CONFIG_TEST_COUNT", "7")
	t.Setenv("CONFIG_TEST_EMPTY", "")
	for _, test := range []struct {
		text string
		got  func(Config) any
		want any
	}{
		{"listen: :80", func(c Config) any { return c.Listen }, ":80"},
		{"transparent: 127.0.0.1:15001", func(c Config) any { return c.Transparent }, "127.0.0.1:15001"},
		{"admin_listen: ''", func(c Config) any { return c.AdminListen }, ""},
		{"listen: '[::1]:0'\nadmin_listen: '[::1]:0'", func(c Config) any { return c.AdminListen }, "[::1]:0"},
		{"cache: {memory: 1024GiB}", func(c Config) any { return c.Cache.Memory }, int64(1 << 40)},
		{"cache: {redis_url: 'rediss://fleet:pass%2Fword@redis.example:6380/3'}", func(c Config) any { return c.Cache.Server.URL }, "rediss://fleet:pass%2Fword@redis.example:6380/3"},
		{"cache: {store: redis}", func(c Config) any { return string(c.Cache.Kind) }, "redis"},
		{"pace: {default_delay: 0}", func(c Config) any { return c.Pace.DefaultDelay }, time.Duration(0)},
		{"upstream: {via: OFF}\nhttps: {mode: Intercept}\nlog: {level: WARN}", func(c Config) any {
			return string(c.Upstream.Via) + " " + string(c.HTTPS.Tunnels.Mode) + " " + string(c.Log.Level)
		}, "off intercept warn"},
		{"cache: {store: none}", func(c Config) any { return string(c.Cache.Kind) }, "none"},
		{"upstream: {via: off}", func(c Config) any { return string(c.Upstream.Via) }, "off"},
		{"robots: {statuses: {'429': unreachable, 403: disallow}}", func(c Config) any { return len(c.Robots.Statuses[429]) + len(c.Robots.Statuses[403]) }, 19},
		{"clients: {allow: [10.1.2.3/8, 192.0.2.1, '2001:db8::1']}", func(c Config) any {
			return c.Clients.Allow[0].String() + " " + c.Clients.Allow[1].String() + " " + c.Clients.Allow[2].String()
		}, "10.0.0.0/8 192.0.2.1/32 2001:db8::1/128"},
		{"clients: {allow: []}", func(c Config) any { return len(c.Clients.Allow) }, 0},
		{"default_identity:\n  user_agent: >-\n    A\n    B\n", func(c Config) any { return c.DefaultIdentity.UserAgent }, "A B"},
		{"default_identity: {product_tokens: [A, B]}", func(c Config) any { return strings.Join(c.DefaultIdentity.ProductTokens, " ") }, "A B"},
		{"overrides: [{origin: http://a.example, verdict: allow, expires: 2027-01-31, reason: a}]\noverrides_need_reason: true", func(c Config) any {
			return c.Overrides[0].Expires.String() + " " + c.Overrides[0].Reason
		}, "2027-01-31 a"},
		{"overrides:\n- origin: http://a.example\n  verdict: allow\n  expires: 2027-01-31T18:00:00+01:00\n  reason: >-\n    a\n    b\n  by: Ada", func(c Config) any {
			return c.Overrides[0].Expires.String() + " " + c.Overrides[0].Reason + " " + c.Overrides[0].By
		}, "2027-01-31T17:00:00Z a b Ada"},
		{"name: a\r\nlisten: :1\r\n", func(c Config) any { return c.Name + c.Listen }, "a:1"},
	} {
		c, err := loadText(t, test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if got := test.got(c); got != test.want {
			t.Errorf("%s: got %v, want %v", test.text, got, test.want)
		}
	}
}

// Only Linux can do what reuse_port and transparent ask for.
func TestKeysOfOneSystem(t *testing.T) {
	for text, on := range map[string]struct {
		supported bool
		is        func(Config) bool
		fault     string
	}{
		"reuse_port: true": {listen.ReusePortSupported, func(c Config) bool { return c.ReusePort }, "FILE:1:13: reuse_port: only Linux"},
		"transparent: :0":  {redirected.Supported, func(c Config) bool { return c.Transparent == ":0" }, "FILE:1:14: transparent: only Linux"},
	} {
		c, err := loadText(t, text)
		switch {
		case on.supported && (err != nil || !on.is(c)):
			t.Errorf("%s: %v", text, err)
		case !on.supported && (err == nil || !strings.HasPrefix(err.Error(), on.fault)):
			t.Errorf("%s: %v, want %s", text, err, on.fault)
		}
	}
	if Default().ReusePort {
		t.Error("reuse_port is true by default")
	}
}

func TestErrors(t *testing.T) {
	t.Setenv("CONFIG_TEST_BAD", "not a name")
	for _, test := range []struct {
		text string
		want []string // the beginnings of all lines, in order
	}{
		// values
		{"pace: {max_wait: 0s}", []string{`FILE:1:18: pace.max_wait: "0s" is not more than zero`}},
		{"pace: {max_crawl_delay: 0}", []string{`FILE:1:25: pace.max_crawl_delay: "0" is not more than zero`}},
		{"pace: {max_crawl_delay: 366d}", []string{`FILE:1:25: pace.max_crawl_delay: 8784h0m0s is too long`}},
		{"pace: {max_per_day: -1}", []string{`FILE:1:21: pace.max_per_day: -1 is less than 0; write 0 for no limit`}},
		{"pace: {scope: host}", []string{`FILE:1:15: pace.scope: "host" is none of origin, site`}},
		{"pace: {min_delay: 366d}", []string{`FILE:1:19: pace.min_delay: 8784h0m0s is too long`}},
		{"pace: {back_off: {after: -1}}", []string{`FILE:1:26: pace.back_off.after: -1 is less than 0; write 0 for no pauses`}},
		{"pace: {back_off: {first: 2h}}", []string{`FILE:1:26: pace.back_off.first: 2h0m0s is longer than back_off.max (1h0m0s); write 1h0m0s or less`}},
		{"pace: {back_off: {max: 2d}}", []string{`FILE:1:24: pace.back_off.max: 48h0m0s is too long; write 24h or less`}},
		{"pace: {max_in_flight: -1}", []string{`FILE:1:23: pace.max_in_flight: -1 is less than 0`}},
		{"cache: {memory: 0}", []string{`FILE:1:17: cache.memory: 0 has no room for a policy`}},
		{"cache: {memory: 1025GiB}", []string{`FILE:1:17: cache.memory: 1100585369600 is more than any machine has; write 1024GiB`}},
		{"robots: {max_bytes: 2GiB}", []string{`FILE:1:21: robots.max_bytes: 2147483648 is more than`}},
		{"cache: {max_size: 1MiB}", []string{`FILE:1:19: cache.max_size: 1048576 holds next to no policy; write 16MiB or more, or 0`}},
		{"cache: {store: disk}", []string{`FILE:1:16: cache.store: "disk" is none of sqlite, redis, none`}},
		{"log: {level: loud, format: text}", []string{`FILE:1:14: log.level: "loud" is none of debug, info, warn, error`, `FILE:1:28: log.format: "text" is none of auto, json, console`}},
		{"overrides: [{origin: http://a.example, verdict: allow, expires: 2027-02-30}]", []string{`FILE:1:65: overrides[0].expires: "2027-02-30" is neither a date nor a time; write the last day`}},
		{"overrides: [{origin: http://a.example, verdict: allow, expires: 9999-12-31}]", []string{`FILE:1:65: overrides[0].expires: "9999-12-31" is out of range; write a date from 2000-01-01`}},
		{"overrides: [{origin: http://a.example, verdict: allow, expires: }]", []string{`FILE:1:56: overrides[0].expires: it has no value`}},
		{"overrides: [{origin: http://a.example, verdict: allow, reason: \"a\\nb\", by: \"\\e[1m\"}]", []string{`FILE:1:64: overrides[0].reason: "a\nb" has characters that can't be shown`, `FILE:1:76: overrides[0].by: "\x1b[1m" has characters that can't be shown`}},
		{"overrides: [{origin: http://a.example, verdict: allow, reason: 5}]", []string{`FILE:1:64: overrides[0].reason: 5 is not text`}},
		{"overrides_need_reason: true\noverrides:\n- {origin: http://a.example, verdict: allow, reason: a}\n- {origin: http://b.example, verdict: allow, reason: ''}\n- origin: http://c.example\n  verdict: allow", []string{
			"FILE:4:54: overrides[1].reason: it is missing, and overrides_need_reason is true; write why the override is there", "FILE:5:3: overrides[2].reason: it is missing"}},
		{"name: 1a", []string{`FILE:1:7: name: "1a" is no name`}},
		{"name: ''", []string{`FILE:1:7: name: "" is no name`}},
		{"name: naïve", []string{`FILE:1:7: name: "naïve" is no name`}},
		{"listen: ''", []string{`FILE:1:9: listen: "" is no address`}},
		{"listen: '8080'", []string{`FILE:1:9: listen: "8080" is no address`}},
		{"listen: localhost:http", []string{`FILE:1:9: listen: "localhost:http" is no address`}},
		{"listen: 127.0.0.1:65536", []string{`FILE:1:9: listen: "127.0.0.1:65536" is no address`}},
		{"listen: http://127.0.0.1:80", []string{`FILE:1:9: listen: "http://127.0.0.1:80" is no address`}},
		{"listen_socks: '1080'", []string{`FILE:1:15: listen_socks: "1080" is no address`}},
		{"listen_socks: 127.0.0.1:8080", []string{`FILE:1:15: listen_socks: 127.0.0.1:8080 has the same port as listen 127.0.0.1:8080`}},
		{"directory_listen: 127.0.0.1", []string{`FILE:1:19: directory_listen: "127.0.0.1" is no address`}},
		{"directory_listen: :9090", []string{`FILE:1:19: directory_listen: :9090 has the same port as admin_listen 127.0.0.1:9090`}},
		{"listen_socks: :1080\nlisten_tls: {address: '127.0.0.1:1080', cert: none.pem, key: none.pem}", []string{
			"FILE:2:23: listen_tls.address: 127.0.0.1:1080 has the same port as listen_socks", "FILE:2:47: listen_tls.cert: read the proxy's own certificate: open "}},
		{"listen_tls: {address: :8443}", []string{"FILE:1:1: listen_tls.cert: there is no certificate"}},
		{"listen: 127.0.0.1:9090", []string{"FILE:1:1: admin_listen: 127.0.0.1:9090 has the same port"}},
		{"transparent: 127.0.0.1:9090", []string{"FILE:1:14: transparent: 127.0.0.1:9090 has the same port as admin_listen 127.0.0.1:9090"}},
		{"transparent: nowhere", []string{"FILE:1:14: transparent: \"nowhere\" is no address"}},
		{"admin_listen: 0.0.0.0:8080", []string{"FILE:1:15: admin_listen: 0.0.0.0:8080 has the same port"}},
		{"cache: {redis_url: 127.0.0.1:6379}", []string{"FILE:1:20: cache.redis_url: this is no address of a Redis server; write redis://"}},
		{"cache:\n  memory: 0\n  redis_url: http://127.0.0.1:6379", []string{"FILE:2:11: cache.memory: 0 has no room", "FILE:3:14: cache.redis_url: this is no address"}},
		{"https:\n  ca_cert: x.pem", []string{"FILE:2:12: https.ca_cert: ca_key is missing"}},
		{"https:\n  ca_key: /nowhere/key\n  ca_cert: nowhere/ca", []string{"FILE:2:11: https.ca_key: read the CA's key: open /nowhere/key", "FILE:3:12: https.ca_cert: read the CA: open nowhere/ca"}},
		{"https: {ca_cert: config_test.go, ca_key: config_test.go}", []string{"FILE:1:18: https.ca_cert: read the CA: there is no PEM certificate in config_test.go", "FILE:1:42: https.ca_key: read the CA's key: there is no PEM private key"}},
		{"name: ${CONFIG_TEST_BAD}", []string{`FILE:1:7: name: "not a name" is no name`}},

		// the section's place, where the key has none
		{"name: a\nrobots:\n  # too short\n  max_ttl: 1m", []string{"FILE:2:1: robots.min_ttl: 5m0s is more than max_ttl 1m0s"}},

		// all at once
		{"nam: a\nrobots:\n  ttl: soon\n  min_ttl: 48h\nlisten: x\ncache: {memory: 1TB, store: disk}", []string{
			"FILE:1:1: unknown key", "FILE:3:8: robots.ttl", "FILE:4:12: robots.min_ttl: 48h", "FILE:5:9: listen", "FILE:6:17: cache.memory", "FILE:6:29: cache.store",
		}},
	} {
		_, err := loadText(t, test.text)
		if err == nil {
			t.Errorf("%q: no error", test.text)
			continue
		}
		if lines := slices.Collect(strings.Lines(err.Error() + "\n")); !slices.EqualFunc(lines, test.want, strings.HasPrefix) {
			t.Errorf("%q:\n%s\nwant\n%s", test.text, err, strings.Join(test.want, "\n"))
		}
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "proxy.yaml")
	t.Setenv("CONFIG_TEST_DIR", "sub")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	ca, err := certs.Open(certs.Options{}, filepath.Join(dir, "sub"))
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(filepath.Dir(ca.Path()), "ca-key.pem")
	text := "data_dir: ${CONFIG_TEST_DIR}/x\nlog: {file: /var/log/x}\nhttps: {ca_cert: x/../sub/ca.pem, ca_key: " + key + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Default(), file)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.DataDir, c.Log.File, c.HTTPS.Cert, c.HTTPS.Key, c.Upstream.CAFile}
	want := []string{filepath.Join(dir, "sub/x"), "/var/log/x", ca.Path(), key, ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c, err = Load(Default(), file, strictyaml.Setting{Key: "data_dir", Value: "here", Source: "--data-dir"})
	if err != nil || c.DataDir != "here" {
		t.Errorf("set by a flag: %q, error %v", c.DataDir, err)
	}
}

// Clients may read the folder of trust_dir.
func TestTrustFolderWithTheKeyInIt(t *testing.T) {
	dir := t.TempDir()
	if _, err := certs.Open(certs.Options{}, dir); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("https:\n  trust_dir: %s\n  ca_cert: %[1]s/ca.pem\n  ca_key: %[1]s/ca-key.pem\n", dir)
	if _, err := loadText(t, text); err == nil || !strings.HasPrefix(err.Error(), "FILE:2:14: https.trust_dir: clients may read all of "+dir) {
		t.Errorf("error %v", err)
	}
}

func TestSettings(t *testing.T) {
	c, err := loadText(t, "listen: :1\nlog:\n  level: warn\nname: file\n",
		strictyaml.Setting{Key: "listen", Value: ":2", Source: "ROBOTSPROXY_LISTEN"}, strictyaml.Setting{Key: "listen", Value: ":3", Source: "--listen"},
		strictyaml.Setting{Key: "log.level", Value: "debug", Source: "--log-level"}, strictyaml.Setting{Key: "admin_listen", Value: "", Source: "--admin-listen"},
		strictyaml.Setting{Key: "cache.memory", Value: "1KiB", Source: "--memory"}, strictyaml.Setting{Key: "robots.max_redirects", Value: "1", Source: "--redirects"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":3" || c.Log.Level != "debug" || c.AdminListen != "" || c.Name != "file" || c.Cache.Memory != 1024 || c.Robots.MaxRedirects != 1 {
		t.Errorf("got %+v", c)
	}

	_, err = loadText(t, "listen: :1\nname: 1a\nlog: {level: x}",
		strictyaml.Setting{Key: "log.level", Value: "loud", Source: "--log-level"}, strictyaml.Setting{Key: "listen", Value: "nowhere", Source: "--listen"}, strictyaml.Setting{Key: "name", Value: "${HOME}", Source: "NAME"})
	want := []string{`FILE:3:14: log.level: "x" is none of`, `--log-level: "loud" is none of`, `NAME: "${HOME}" is no name`, `--listen: "nowhere" is no address`}
	var faults strictyaml.Errors
	if !errors.As(err, &faults) || len(faults) != len(want) {
		t.Fatalf("error %v", err)
	}
	for i, fault := range faults {
		if !strings.HasPrefix(fault.Error(), want[i]) {
			t.Errorf("got %q, want %q", fault, want[i])
		}
	}
}

// Without a file an error has no line.
func TestSettingThatDoesNotFitADefault(t *testing.T) {
	_, err := Load(Default(), "", strictyaml.Setting{Key: "listen", Value: "127.0.0.1:9090", Source: "--listen"})
	if err == nil || !strings.HasPrefix(err.Error(), "admin_listen: 127.0.0.1:9090 has the same port as listen") {
		t.Errorf("error %v", err)
	}
}

func TestDataFolder(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	for _, test := range []struct{ dataDir, xdg, want string }{
		{"/d", "/xdg", "/d"},
		{"", "/xdg", "/xdg/robotsproxy"},
		{"", "relative", "/home/x/.local/share/robotsproxy"},
		{"", "", "/home/x/.local/share/robotsproxy"},
	} {
		t.Setenv("XDG_DATA_HOME", test.xdg)
		if got, err := (Config{DataDir: test.dataDir}).DataFolder(); got != test.want || err != nil {
			t.Errorf("data_dir %q, XDG_DATA_HOME %q: got %q, error %v", test.dataDir, test.xdg, got, err)
		}
	}
}

// Without this test, a key of a type that strictyaml does not know would panic only when
// somebody writes it.
func TestEveryKeyHasAValueThatCanBeWritten(t *testing.T) {
	c := Default()
	for _, key := range strictyaml.AllKeys(c) {
		if !key.IsSection() && key.Value.Kind() != reflect.Slice && key.Value.Kind() != reflect.Map {
			strictyaml.New("", nil).Set(strictyaml.Setting{Key: key.Path, Value: "x"}, &c) // panics
		}
	}
}

func FuzzLoad(f *testing.F) {
	full, err := os.ReadFile(filepath.Join("..", "configs", "full.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, seed := range []string{
		"lisen: :80\nrobots:\n  ttl: soon\n  statuses: {429: allow, x: y}\n", "name: ${X}\n---\n", "a: [1,\n{b: 'é\n", "name:\t|\r\n  x\r",
		"? a\n: &b *b\n<<: !!c d\n", "clients:\n- allow\n", "log: {level: \"\\u00e9\", file: }", "\ufeff%YAML 1.2\n--- {name: x}\n...\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := Parse(Default(), "FILE", text)
		if err == nil {
			return
		}
		var faults strictyaml.Errors
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("error %T %v", err, err)
		}
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff")), "\n")
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > len(lines) || fault.Column < 1 || fault.Column > len([]rune(lines[fault.Line-1]))+1 {
				t.Errorf("%q: %v is not in the file", text, fault)
			}
			if fault.Message == "" {
				t.Errorf("%q: no message", text)
			}
		}
	})
}
