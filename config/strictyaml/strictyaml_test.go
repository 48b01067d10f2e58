package strictyaml

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"robotsproxy/internal/keyerr"
)

// file has a key of each type.
type file struct {
	Name   string        `yaml:"name"`
	Listen string        `yaml:"listen"`
	Grace  time.Duration `yaml:"shutdown_grace"`
	Robots struct {
		TTL          time.Duration  `yaml:"ttl"`
		MinTTL       time.Duration  `yaml:"min_ttl"`
		MaxRedirects int            `yaml:"max_redirects"`
		Soft5xx      bool           `yaml:"soft_5xx"`
		Statuses     map[int]string `yaml:"statuses"`
	} `yaml:"robots"`
	Clients struct {
		Allow []netip.Prefix `yaml:"allow"`
	} `yaml:"clients"`
	Log struct {
		File    string `yaml:"file,path"`
		Logging `yaml:",inline"`
	} `yaml:"log"`
	Cache struct {
		Memory int64 `yaml:"memory,size"`
	} `yaml:"cache"`
	Pace struct {
		Delay time.Duration `yaml:"default_delay,zero"`
	} `yaml:"pace"`
	Bot struct {
		UserAgent string `yaml:"user_agent"`
		From      string `yaml:"from"`
	} `yaml:"bot"`
}

// Logging is a struct whose keys are those of another section.
type Logging struct {
	Level level `yaml:"level"`
}

type level string

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "info" {
		return fmt.Errorf("%q is not info", text)
	}
	*l = "info"
	return nil
}

// validate finds fault with names that begin with a digit, and with a min_ttl of more than the
// ttl.
func (f file) validate() error {
	var errs []error
	if name := strings.TrimSpace(f.Name); strings.TrimLeft(name, "0123456789") != name {
		errs = append(errs, keyerr.New("name", "%q begins with a digit", f.Name))
	}
	if f.Robots.MinTTL > f.Robots.TTL {
		errs = append(errs, keyerr.New("robots.min_ttl", "%v is more than ttl", f.Robots.MinTTL))
	}
	return errors.Join(errs...)
}

// read reads a file of this content.
func read(text string, settings ...Setting) (file, error) {
	f := file{Name: "default"}
	f.Robots.TTL = time.Hour
	d := New("FILE", []byte(text))
	d.Decode(&f)
	for _, s := range settings {
		d.Set(s, &f)
	}
	d.Refuse(f.validate())
	if faults := d.Faults(); faults != nil {
		return f, faults
	}
	return f, nil
}

func TestValues(t *testing.T) {
	t.Setenv("YAML_TEST_NAME", "bot: [x] # y")
	t.Setenv("YAML_TEST_COUNT", "7")
	t.Setenv("YAML_TEST_EMPTY", "")
	for _, test := range []struct {
		text string
		got  func(file) any
		want any
	}{
		{"", func(f file) any { return f.Name }, "default"},
		{"name: a\r\nlisten: :1\r\n", func(f file) any { return f.Name + f.Listen }, "a:1"},
		{"log: {level: info}", func(f file) any { return string(f.Log.Level) }, "info"},
		{"shutdown_grace: 1d12h", func(f file) any { return f.Grace }, 36 * time.Hour},
		{"shutdown_grace: '0.5d'", func(f file) any { return f.Grace }, 12 * time.Hour},
		{"shutdown_grace: 5ms", func(f file) any { return f.Grace }, 5 * time.Millisecond},
		{"cache: {memory: 1 GiB}", func(f file) any { return f.Cache.Memory }, int64(1 << 30)},
		{"cache: {memory: 1gib}", func(f file) any { return f.Cache.Memory }, int64(1 << 30)},
		{"cache: {memory: 64MB}", func(f file) any { return f.Cache.Memory }, int64(64000000)},
		{"cache: {memory: 5 kB}", func(f file) any { return f.Cache.Memory }, int64(5000)},
		{"cache: {memory: 2gb}", func(f file) any { return f.Cache.Memory }, int64(2000000000)},
		{"cache: {memory: 4096}", func(f file) any { return f.Cache.Memory }, int64(4096)},
		{"pace: {default_delay: 0s}", func(f file) any { return f.Pace.Delay }, time.Duration(0)},
		{"pace: {default_delay: 0}", func(f file) any { return f.Pace.Delay }, time.Duration(0)},
		{"pace: {default_delay: 500ms}", func(f file) any { return f.Pace.Delay }, 500 * time.Millisecond},
		{"robots: {soft_5xx: true}", func(f file) any { return f.Robots.Soft5xx }, true},
		{"robots: {soft_5xx: 'true'}", func(f file) any { return f.Robots.Soft5xx }, true},
		{"robots: {soft_5xx: TRUE}", func(f file) any { return f.Robots.Soft5xx }, true},
		{"robots: {soft_5xx: On}", func(f file) any { return f.Robots.Soft5xx }, true},
		{"robots: {soft_5xx: yes}", func(f file) any { return f.Robots.Soft5xx }, true},
		{"robots: {soft_5xx: OFF}", func(f file) any { return f.Robots.Soft5xx }, false},
		{"robots: {max_redirects: '3'}", func(f file) any { return f.Robots.MaxRedirects }, 3},
		{"robots: {max_redirects: 0}", func(f file) any { return f.Robots.MaxRedirects }, 0},
		{"robots: {max_redirects: \"${YAML_TEST_COUNT}\"}", func(f file) any { return f.Robots.MaxRedirects }, 7},
		{"bot: {user_agent: \"A ${YAML_TEST_NAME}${YAML_TEST_EMPTY}!\"}", func(f file) any { return f.Bot.UserAgent }, "A bot: [x] # y!"},
		{"bot:\n  user_agent: ${YAML_TEST_NAME}", func(f file) any { return f.Bot.UserAgent }, "bot: [x] # y"},
		{"bot: {user_agent: $YAML_TEST_NAME $}", func(f file) any { return f.Bot.UserAgent }, "$YAML_TEST_NAME $"},
		{"bot:\n  user_agent: >-\n    A\n    B\n", func(f file) any { return f.Bot.UserAgent }, "A B"},
		{"robots: {statuses: {'429': a, 403: b}}", func(f file) any { return f.Robots.Statuses[429] + f.Robots.Statuses[403] }, "ab"},
		{"clients: {allow: [10.1.2.3/8, 192.0.2.1, '2001:db8::1']}", func(f file) any { return fmt.Sprint(f.Clients.Allow) }, "[10.0.0.0/8 192.0.2.1/32 2001:db8::1/128]"},
	} {
		f, err := read(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if got := test.got(f); got != test.want {
			t.Errorf("%s: got %v, want %v", test.text, got, test.want)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string // the beginnings of all lines, in order
	}{
		// keys
		{"lisen: :80", []string{`FILE:1:1: unknown key "lisen"; did you mean listen?`}},
		{"robots:\n  min-ttl: 5m", []string{`FILE:2:3: unknown key "robots.min-ttl"; did you mean min_ttl?`}},
		{"pase: {}", []string{`FILE:1:1: unknown key "pase"; did you mean pace?`}},
		{"robots: {x: 1, tt: 1s}", []string{`FILE:1:10: unknown key "robots.x"`, `FILE:1:16: unknown key "robots.tt"; did you mean ttl?`}},
		{"robots: {abl: 1s}", []string{`FILE:1:10: unknown key "robots.abl"` + "\n"}}, // not near enough to ttl
		{"robots:\nttl: 1h\nmin_ttl: 5m", []string{"FILE:2:1: ttl belongs under robots; indent it", "FILE:3:1: min_ttl belongs under robots; indent it"}},
		{"robots:\n  max_redirects: 1\nttl: 1h", []string{"FILE:3:1: ttl belongs under robots; indent it"}},
		{"ttl: 1h\nrobots: {}", []string{`FILE:1:1: unknown key "ttl"; it belongs under robots` + "\n"}},
		{"robots:\n  default_delay: 1s", []string{`FILE:2:3: unknown key "robots.default_delay"; it belongs under pace`}},
		{"name: a\nlisten: :1\nname: b", []string{`FILE:3:1: the key "name" is repeated, first in line 1`}},
		{"robots:\n  statuses:\n    429: allow\n    '429': allow", []string{`FILE:4:5: the key "robots.statuses.429" is repeated`}},
		{"? name\n: a", []string{"FILE:1:1: this is not a plain key"}},
		{"<<: {name: a}", []string{"FILE:1:1: this is not a plain key"}},
		{"robots: {statuses: {abc: allow}}", []string{`FILE:1:21: robots.statuses.abc: of this key, "abc" is not a whole number`}},

		// types
		{"name: 123", []string{"FILE:1:7: name: 123 is not text; put it in quotes"}},
		{"name: true", []string{"FILE:1:7: name: true is not text"}},
		{"name: [a]", []string{"FILE:1:7: name: this must be a single value"}},
		{"name:\n  a: b", []string{"FILE:2:3: name: this must be a single value"}},
		{"name:", []string{"FILE:1:1: name: it has no value"}},
		{"name: ~", []string{"FILE:1:1: name: it has no value"}},
		{"clients: {allow: }", []string{"FILE:1:11: clients.allow: it has no value"}},
		{"clients: {allow: 10.0.0.0/8}", []string{"FILE:1:18: clients.allow: this must be a list"}},
		{"clients:\n  allow:\n    -\n", []string{"FILE:3:6: clients.allow[0]: it has no value"}},
		{"robots: 5", []string{"FILE:1:9: robots: this must be a mapping"}},
		{"robots: [a]", []string{"FILE:1:9: robots: this must be a mapping"}},
		{"robots: {max_redirects: \"five\"}", []string{`FILE:1:25: robots.max_redirects: "five" is not a whole number`}},
		{"robots: {max_redirects: 1.5}", []string{`FILE:1:25: robots.max_redirects: "1.5" is not a whole number`}},
		{"robots: {max_redirects: 99999999999999999999}", []string{`FILE:1:25: robots.max_redirects: "99999999999999999999" is not a whole number, or too large`}},
		{"robots: {soft_5xx: 1}", []string{`FILE:1:20: robots.soft_5xx: "1" is neither true nor false`}},
		{"- a", []string{"FILE:1:1: this must be a mapping"}},
		{"just text", []string{"FILE:1:1: this must be a mapping"}},

		// values
		{"shutdown_grace: 10", []string{`FILE:1:17: shutdown_grace: "10" is not a duration`}},
		{"shutdown_grace: 0s", []string{`FILE:1:17: shutdown_grace: "0s" is not more than zero`}},
		{"shutdown_grace: 0", []string{`FILE:1:17: shutdown_grace: "0" is not more than zero`}},
		{"shutdown_grace: -1h", []string{`FILE:1:17: shutdown_grace: "-1h" is not more than zero`}},
		{"shutdown_grace: 1d-1h", []string{`FILE:1:17: shutdown_grace: "1d-1h" is not more than zero`}},
		{"shutdown_grace: 106752d", []string{`FILE:1:17: shutdown_grace: "106752d" is too long`}},
		{"shutdown_grace: 9999999d", []string{`FILE:1:17: shutdown_grace: "9999999d" is not a duration, or too long`}},
		{"shutdown_grace: 1h5d", []string{`FILE:1:17: shutdown_grace: "1h5d" is not a duration`}},
		{"shutdown_grace: xd5h", []string{`FILE:1:17: shutdown_grace: "xd5h" is not a duration`}},
		{"shutdown_grace: d", []string{`FILE:1:17: shutdown_grace: "d" is not a duration`}},
		{"shutdown_grace: ''", []string{`FILE:1:17: shutdown_grace: "" is not a duration`}},
		{"pace: {default_delay: -1s}", []string{`FILE:1:23: pace.default_delay: "-1s" is not more than zero`}},
		{"cache: {memory: 64M}", []string{`FILE:1:17: cache.memory: "64M" is not a size; did you mean 64MiB?`}},
		{"cache: {memory: 64 megs}", []string{`FILE:1:17: cache.memory: "64 megs" is not a size; did you mean 64MiB?`}},
		{"cache: {memory: 64TB}", []string{`FILE:1:17: cache.memory: "64TB" is not a size; write a number of bytes, or one with a unit`}},
		{"cache: {memory: MiB}", []string{`FILE:1:17: cache.memory: "MiB" is not a size; write`}},
		{"cache: {memory: ''}", []string{`FILE:1:17: cache.memory: "" is not a size; write`}},
		{"cache: {memory: -1}", []string{`FILE:1:17: cache.memory: "-1" is not a size; write`}},
		{"cache: {memory: 9999999999GiB}", []string{`FILE:1:17: cache.memory: "9999999999GiB" is too large`}},
		{"clients: {allow: [10.0.0.0/33, localhost]}", []string{`FILE:1:19: clients.allow[0]: "10.0.0.0/33" is not a network`, `FILE:1:32: clients.allow[1]: "localhost" is not a network`}},
		{"name: ${YAML_TEST_UNSET}", []string{"FILE:1:7: name: the environment variable YAML_TEST_UNSET is not set"}},
		{"name: a${YAML_TEST_U}${YAML_TEST_V}", []string{"FILE:1:7: name: the environment variable YAML_TEST_U is not set, and the environment variable YAML_TEST_V is not set"}},
		{"name: a${YAML_TEST_BAD", []string{"FILE:1:7: name: ${ has no closing }"}},

		// YAML
		{"name: a\n---\nname: b", []string{"FILE:2:1: a second YAML document"}},
		{"name: a\n---\n", []string{"FILE:2:1: a second YAML document"}},
		{"name: a\n...\nname: b", []string{"FILE:3:1: a second YAML document"}},
		{"name: &a b", []string{"FILE:1:7: name: anchors"}},
		{"name: &a b\nlisten: *a", []string{"FILE:1:7: name: anchors", "FILE:2:9: listen: anchors"}},
		{"name: !!str b", []string{"FILE:1:7: name: anchors"}},
		{"name: [a", []string{"FILE:1:7: sequence end token ']' not found"}},
		{"name: a: b", []string{`FILE:1:7: mapping value is not allowed in this context; if ": " is part of a value, put the value in quotes`}},
		{"robots:\n    ttl: 1h\n  min_ttl: 1h", []string{"FILE:3:3: value is not allowed in this context; indent the keys of a section alike"}},
		{"listen: [::1]:80", []string{"FILE:1:14: value is not allowed in this context; indent the keys of a section alike, and put a value that begins with [ or { in quotes"}},
		{"name: @bot", []string{"FILE:1:7: '@' is a reserved character; put the value in quotes"}},
		{"robots:\n\tttl: 1h", []string{"FILE:2:1: a tab in the indentation; use spaces"}},
		{"robots:\n  ttl: 1h\n  \tmin_ttl: 1m", []string{"FILE:3:3: a tab in the indentation; use spaces"}},
		{"\tname: a", []string{"FILE:1:1: a tab in the indentation; use spaces"}},
		{"bot:\n  from: |\n\ta", []string{"FILE:3:1: a tab in the indentation; use spaces"}},
		{"clients: {allow: [${X}]}", []string{"FILE:1:20: ',' or ']' must be specified; inside [ ] and { }"}},
		{"# é\nname: \xff", []string{"FILE:2:7: this is not UTF-8"}},
		{"name: a\x00b", []string{"FILE:1:8: this is not UTF-8, or a control character"}},

		// positions
		{"# é\nlog: {file: \"日本\", level: x}", []string{`FILE:2:26: log.level`}},
		{"name:\t\t1a", []string{`FILE:1:8: name: "1a"`}},
		{"log:\t{file: x, level:\ty}", []string{`FILE:1:23: log.level: "y"`}},
		{"name: a\r\nlisten:   8080", []string{"FILE:2:11: listen"}},
		{"\ufeffname: 5", []string{"FILE:1:7: name"}},
		{"bot:\n  from: \"a\n    b\"\nname: 1a", []string{"FILE:4:7: name"}},
		{"name: |\n\n  1a", []string{`FILE:1:7: name`}},
		{"name: a\nrobots:\n  # too short\n  ttl: 1s\n  min_ttl: 1m", []string{"FILE:5:12: robots.min_ttl: 1m0s is more than ttl"}},

		// all at once
		{"nam: a\nrobots:\n  ttl: 1m\n  min_ttl: 48h\nlisten: 5\ncache: {memory: 1TB}", []string{
			"FILE:1:1: unknown key", "FILE:4:12: robots.min_ttl: 48h", "FILE:5:9: listen", "FILE:6:17: cache.memory",
		}},
	} {
		_, err := read(test.text)
		if err == nil {
			t.Errorf("%q: no error", test.text)
			continue
		}
		if lines := slices.Collect(strings.Lines(err.Error() + "\n")); !slices.EqualFunc(lines, test.want, strings.HasPrefix) {
			t.Errorf("%q:\n%s\nwant\n%s", test.text, err, strings.Join(test.want, "\n"))
		}
	}
}

func TestSettings(t *testing.T) {
	f, err := read("listen: :1\nlog: {file: a}\n", Setting{"listen", ":2", "LISTEN"}, Setting{"listen", ":3", "--listen"}, Setting{"cache.memory", "1KiB", "--memory"})
	if err != nil || f.Listen != ":3" || f.Log.File != "a" || f.Cache.Memory != 1024 {
		t.Errorf("got %+v, error %v", f, err)
	}
	_, err = read("log: {level: x}", Setting{"log.level", "loud", "--log-level"}, Setting{"name", "1", "NAME"})
	const want = `FILE:1:14: log.level: "x" is not info
--log-level: "loud" is not info
NAME: "1" begins with a digit`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A path in the file is relative to its folder, and one in a setting to the working directory.
func TestPaths(t *testing.T) {
	folder := filepath.Join(string(filepath.Separator), "etc")
	var f file
	d := New(filepath.Join(folder, "proxy.yaml"), []byte("log: {file: sub/../x.log}"))
	d.Decode(&f)
	if want := filepath.Join(folder, "x.log"); f.Log.File != want || d.Faults() != nil {
		t.Errorf("got %q, faults %v", f.Log.File, d.Faults())
	}
	if d.Set(Setting{"log.file", "x.log", "--log-file"}, &f); f.Log.File != "x.log" {
		t.Errorf("got %q", f.Log.File)
	}
}

func TestPositionsOfLaterErrors(t *testing.T) {
	var f file
	d := New("FILE", []byte("# first\nrobots:\n  ttl: 1h\nclients:\n  allow:\n  - 192.0.2.1\n"))
	d.Decode(&f)
	d.Set(Setting{"name", "x", "--name"}, &f)
	for key, want := range map[string]string{
		"robots.ttl":           "FILE:3:8: robots.ttl: here",
		"robots.min_ttl":       "FILE:2:1: robots.min_ttl: here",
		"clients.allow[0]":     "FILE:6:5: clients.allow[0]: here",
		"clients.allow[0].bit": "FILE:6:5: clients.allow[0].bit: here",
		"cache.memory":         "FILE:1:1: cache.memory: here",
		"name":                 "--name: here",
	} {
		if got := Errors(d.Locate(keyerr.New(key, "here"))).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if d.Faults() != nil {
		t.Errorf("faults %v", d.Faults())
	}
}

func TestKeys(t *testing.T) {
	v := struct {
		Level   level `yaml:"level"`
		Section struct {
			Logging `yaml:",inline"`
			Network netip.Prefix `yaml:"network"`
		} `yaml:"section"`
		NoKey   string
		LeftOut string   `yaml:"-"`
		Items   []string `yaml:"items"`
	}{}
	paths := func(keys []Key) (all string) {
		for _, key := range keys {
			all += key.Path + " "
		}
		return all
	}
	if got, want := paths(Keys(v)), "level section items "; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
	if got, want := paths(AllKeys(v)), "level section section.level section.network items "; got != want {
		t.Errorf("all keys %q, want %q", got, want)
	}
}

// A program may write its list of networks on one line. The cost grows with the length of
// the line, not with its square.
func TestOneLongLine(t *testing.T) {
	costs := func(items int) time.Duration {
		text := "clients: {allow: [" + strings.Repeat("é, ", items) + "10.0.0.0/33]}"
		begun := cpuTime(t)
		_, err := read(text)
		took := cpuTime(t) - begun
		var faults Errors
		if !errors.As(err, &faults) || len(faults) != items+1 {
			t.Fatalf("%d faults", len(faults))
		}
		if last := faults[items]; last.Column != len([]rune(text))-12 {
			t.Errorf("the last one at %v", last.Position)
		}
		return took
	}
	const items, times = 1000, 32
	costs(items) // the first time is the dearest
	if short, long := costs(items), costs(times*items); long > times*times/4*short {
		t.Errorf("%d items take %v, and %d take %v", items, short, times*items, long)
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
