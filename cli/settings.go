package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"robotsproxy/config"
)

// setting is a key of the configuration that a flag or a variable can set too.
type setting struct{ flag, key, help string }

// variable is the environment's name for it.
func (s setting) variable() string {
	return "ROBOTSPROXY_" + strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_"))
}

var (
	commonSettings = []setting{
		{"data-dir", "data_dir", "folder for the CA and the policies"},
		{"log-level", "log.level", "debug, info, warn or error"},
		{"log-format", "log.format", "auto, json or console"},
		{"log-file", "log.file", "file for the log instead of standard error"},
	}
	listenSettings = []setting{
		{"listen", "listen", "address of the proxy"},
		{"admin-listen", "admin_listen", `address of the admin server; "" turns it off`},
	}
	configFlag = setting{flag: "config", help: "configuration file (YAML)"}
)

// addSettings gives a command --config and a flag for each setting.
func addSettings(cmd *cobra.Command, settings ...setting) {
	for _, s := range append(settings, configFlag) {
		cmd.Flags().String(s.flag, "", s.help+" ["+s.variable()+"]")
	}
}

// loadConfig reads the configuration of a command that has these settings: flag
// beats variable beats file beats base. An empty variable is one that is not
// set.
func loadConfig(cmd *cobra.Command, base config.Config, settings ...setting) (config.Config, error) {
	var given []config.Setting
	for _, s := range settings {
		if value, source, ok := lookup(cmd, s); ok {
			given = append(given, config.Setting{Key: s.key, Value: value, Source: source})
		}
	}
	file, _, _ := lookup(cmd, configFlag)
	return config.Load(base, file, given...)
}

func lookup(cmd *cobra.Command, s setting) (value, source string, ok bool) {
	if f := cmd.Flags().Lookup(s.flag); f != nil && f.Changed {
		return f.Value.String(), "--" + s.flag, true
	}
	value = os.Getenv(s.variable())
	return value, s.variable(), value != ""
}
