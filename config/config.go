// Package config has every setting of the program with its default, and reads them from a
// YAML file.
//
// [Load] returns a valid [Config], or every fault of the file at once, each with its line and
// column. The packages that use a section define its options, defaults and validation.
package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"robotsproxy/certs"
	"robotsproxy/certs/trust"
	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/keyerr"
	"robotsproxy/internal/listen"
	"robotsproxy/internal/logging"
	"robotsproxy/internal/redirected"
	"robotsproxy/proxy/access"
	"robotsproxy/proxy/admin/guard"
	"robotsproxy/proxy/conns"
	"robotsproxy/proxy/decision"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/proxy/opaque"
	"robotsproxy/proxy/override"
	"robotsproxy/proxy/pace"
	"robotsproxy/proxy/sealed"
	"robotsproxy/proxy/upstream"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// Config is a whole configuration. configs/full.yaml says what each key means.
type Config struct {
	Name            string            `yaml:"name"`
	Listen          string            `yaml:"listen"`
	Transparent     string            `yaml:"transparent"`  // "" means no transparent door
	AdminListen     string            `yaml:"admin_listen"` // "" means no admin server
	ListenSOCKS     string            `yaml:"listen_socks"` // "" means no SOCKS door
	ListenTLS       ListenTLS         `yaml:"listen_tls"`
	DirectoryListen string            `yaml:"directory_listen"` // "" means that only the admin server has the key directory
	ReusePort       bool              `yaml:"reuse_port"`       // listen with SO_REUSEPORT, beside the process that is to end
	AdminToken      guard.Token       `yaml:"admin_token"`
	DataDir         string            `yaml:"data_dir,path"`
	ShutdownGrace   time.Duration     `yaml:"shutdown_grace"`
	Log             Log               `yaml:"log"`
	Clients         access.Options    `yaml:"clients"`
	HTTPS           HTTPS             `yaml:"https"`
	Identities      []identity.Entry  `yaml:"identities"`
	DefaultIdentity identity.Identity `yaml:"default_identity"`
	Robots          Robots            `yaml:"robots"`
	Preferences     gate.Preferences  `yaml:"preferences"`
	Overrides       override.List     `yaml:"overrides"`
	Cache           Cache             `yaml:"cache"`
	Pace            pace.Options      `yaml:"pace"`
	Upstream        upstream.Options  `yaml:"upstream"`
	Limits          conns.Limits      `yaml:"limits"`
	Run             sealed.Options    `yaml:"run"`

	OverridesNeedReason bool `yaml:"overrides_need_reason"` // refuses overrides without a reason

	warnings []strictyaml.Error
	file     *strictyaml.Decoder // knows where keys are; nil if the configuration was not loaded
}

// Warnings returns what is valid in the loaded configuration but refuses requests
// needlessly, does not do what it says or soon will not, each with its position and what to
// write instead.
func (c Config) Warnings() []strictyaml.Error { return c.warnings }

// Locate returns what use has shown to be wrong with the configuration: the errors that err joins,
// each a [keyerr.Error] with its whole key, with their positions.
func (c Config) Locate(err error) strictyaml.Errors {
	if c.file == nil {
		c.file = strictyaml.New("", nil)
	}
	return c.file.Locate(err)
}

// ListenTLS is the section "listen_tls": where the proxy speaks TLS itself, and as whom.
type ListenTLS struct {
	Address      string `yaml:"address"` // "" means nowhere
	certs.Server `yaml:",inline"`
}

// Validate joins all that is wrong with the section, each fault a [keyerr.Error]. The
// certificate of a section without an address is not used, and not read.
func (l ListenTLS) Validate() error {
	if l.Address == "" {
		return nil
	}
	return l.Server.Validate()
}

// Load is [certs.Server.Load]. It loads nothing, and returns nil, without an address.
func (l ListenTLS) Load() (own *tls.Certificate, warnings []string, err error) {
	if l.Address == "" {
		return nil, nil, nil
	}
	return l.Server.Load()
}

// Log is the section "log": what is logged, how and where.
type Log struct {
	logging.Options `yaml:",inline"`
	Decisions       decision.LogFilter `yaml:"decisions"`
}

// HTTPS is the section "https": which tunnels are read, with which certificates, and where
// clients find what makes them trust these.
type HTTPS struct {
	Tunnels       opaque.Options `yaml:",inline"`
	certs.Options `yaml:",inline"`
	Trust         trust.Options `yaml:",inline"`
}

// Validate joins all that is wrong with the section, each fault a [keyerr.Error].
func (h HTTPS) Validate() error {
	if err := h.Options.Validate(); err != nil || h.Cert == "" {
		return err
	}
	return h.Trust.Validate(h.Key, h.Cert)
}

// Robots is the section "robots": how a robots.txt is fetched and kept, and how paths are
// compared with it.
type Robots struct {
	policy.Options `yaml:",inline"`
	StrictPaths    bool `yaml:"strict_paths"` // see gate.Settings
}

// Cache is the section "cache": how much memory policies may take, and in which store they
// last.
type Cache struct {
	Memory        int64 `yaml:"memory,size"`
	store.Options `yaml:",inline"`
}

// Validate joins all that is wrong with the section, each fault a [keyerr.Error].
func (c Cache) Validate() error {
	var err error
	switch {
	case c.Memory <= 0:
		err = keyerr.New("memory", "%d has no room for a policy; write 1MiB or more", c.Memory)
	case c.Memory > maxMemory:
		err = keyerr.New("memory", "%d is more than any machine has; write 1024GiB or less", c.Memory)
	}
	return errors.Join(err, c.Options.Validate())
}

const maxMemory = 1 << 40

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		Name:            "robotsproxy",
		Listen:          "127.0.0.1:8080",
		AdminListen:     "127.0.0.1:9090",
		ShutdownGrace:   30 * time.Second,
		Log:             Log{logging.Defaults(), decision.LogAll},
		Clients:         access.Defaults(),
		HTTPS:           HTTPS{Tunnels: opaque.Defaults(), Options: certs.Defaults()},
		DefaultIdentity: identity.Default(),
		Robots:          Robots{Options: policy.Defaults()},
		Preferences:     gate.DefaultPreferences(),
		Cache:           Cache{Memory: 64 << 20, Options: store.Defaults()},
		Pace:            pace.Defaults(),
		Upstream:        upstream.Defaults(),
		Limits:          conns.DefaultLimits(),
		Run:             sealed.Defaults(),
	}
}

// DataFolder returns the data directory: data_dir or, if that is "", the one that the XDG
// Base Directory Specification assigns to the program.
func (c Config) DataFolder() (string, error) {
	if c.DataDir != "" {
		return c.DataDir, nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) { // the specification says to ignore a relative one
		return filepath.Join(data, "robotsproxy"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w; name one with --data-dir or data_dir", err)
	}
	return filepath.Join(home, ".local", "share", "robotsproxy"), nil
}

// Validate joins all that is wrong with c, each fault a [keyerr.Error] with its whole key.
func (c Config) Validate() error {
	var errs []error
	if !isName(c.Name) {
		errs = append(errs, keyerr.New("name", "%q is no name; write a letter, then letters, digits, - . _", c.Name))
	}
	errs = append(errs, c.validateListeners())
	for _, key := range strictyaml.Keys(c) {
		if key.Value.Kind() != reflect.Slice {
			errs = append(errs, validateSection(key.Path, key.Value))
			continue
		}
		for i := range key.Value.Len() {
			errs = append(errs, validateSection(keyerr.Item(key.Path, i), key.Value.Index(i)))
		}
	}
	return errors.Join(append(errs, c.validateNames(), c.validateReasons())...)
}

func validateSection(key string, v reflect.Value) error {
	section, ok := v.Interface().(interface{ Validate() error })
	if !ok {
		return nil
	}
	return keyerr.In(key, section.Validate())
}

func (c Config) validateNames() error {
	var errs []error
	first := map[string]int{}
	for i, e := range c.Identities {
		if at, again := first[e.Name]; again && e.Name != "" {
			errs = append(errs, keyerr.New(keyerr.Item("identities", i)+".name", "identities[%d] is called %s too; choose another name", at, e.Name))
		} else {
			first[e.Name] = i
		}
	}
	return errors.Join(errs...)
}

// validateReasons checks that each override has a reason, if overrides_need_reason says so.
func (c Config) validateReasons() error {
	var errs []error
	for i, o := range c.Overrides {
		if c.OverridesNeedReason && o.Reason == "" {
			errs = append(errs, keyerr.New(keyerr.Item("overrides", i)+".reason", `it is missing, and overrides_need_reason is true; write why the override is there, for example reason: "our own site"`))
		}
	}
	return errors.Join(errs...)
}

// GateSettings returns the settings by which the gate judges.
func (c Config) GateSettings() gate.Settings {
	return gate.Settings{
		Identities: identity.Table{Entries: c.Identities, Default: c.DefaultIdentity},
		Overrides:  c.Overrides,
		MaxBytes:   c.Robots.MaxBytes,
		LogFilter:  c.Log.Decisions,

		Preferences: c.Preferences,
		StrictPaths: c.Robots.StrictPaths,
	}
}

// validateListeners checks every address at which the program listens. Only the first one
// must be there.
func (c Config) validateListeners() error {
	type listener struct {
		key, address, host string
		port               uint16
	}
	var errs []error
	var valid []listener
	for _, l := range []listener{
		{key: "listen", address: c.Listen},
		{key: "admin_listen", address: c.AdminListen},
		{key: "listen_socks", address: c.ListenSOCKS},
		{key: "listen_tls.address", address: c.ListenTLS.Address},
		{key: "transparent", address: c.Transparent},
		{key: "directory_listen", address: c.DirectoryListen},
	} {
		if l.address == "" && l.key != "listen" {
			continue
		}
		var err error
		if l.host, l.port, err = splitAddress(l.address); err != nil {
			errs = append(errs, keyerr.Wrap(l.key, err))
			continue
		}
		for _, other := range valid {
			if l.port == other.port && l.port != 0 && (l.host == other.host || isAnyHost(l.host) || isAnyHost(other.host)) {
				errs = append(errs, keyerr.New(l.key, "%s has the same port as %s %s; give it another, or \"\" for none", l.address, other.key, other.address))
				break
			}
		}
		valid = append(valid, l)
	}
	if c.Transparent != "" && !redirected.Supported {
		errs = append(errs, keyerr.New("transparent", "only Linux tells where a redirected connection was to go; write \"\" here"))
	}
	if c.ReusePort && !listen.ReusePortSupported {
		errs = append(errs, keyerr.New("reuse_port", "only Linux lets a process leave its port to the next one; write false here"))
	}
	return errors.Join(errs...)
}

// splitAddress splits HOST:PORT. Port 0 means any free port.
func splitAddress(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	number, numberErr := strconv.ParseUint(text, 10, 16)
	if err != nil || numberErr != nil || strings.ContainsAny(host, " \t/@") {
		return "", 0, fmt.Errorf("%q is no address; write HOST:PORT, for example 127.0.0.1:8080 or [::1]:8080", address)
	}
	return host, uint16(number), nil
}

func isAnyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// isName is stricter than a token (RFC 9110 5.6.2), so that a name needs no
// quotes in Via and Proxy-Status, nor in a shell.
func isName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"0123456789-._") == ""
}
