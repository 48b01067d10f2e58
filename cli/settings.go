package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/config/strictyaml"
)

// A setting is a key of the configuration that a flag and an environment variable can
// set too.
type setting struct{ flag, key, help string }

// variable is the name of the environment variable.
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
	listenSetting      = setting{"listen", "listen", "address of the proxy"}
	adminListenSetting = setting{"admin-listen", "admin_listen", `address of the admin server; "" turns it off`}
	configFlag         = setting{flag: "config", help: "configuration file (YAML)"}
)

// addSettings adds --config and a flag for each setting to a command.
func addSettings(cmd *cobra.Command, settings ...setting) {
	for _, s := range append(settings, configFlag) {
		cmd.Flags().String(s.flag, "", s.help+" ["+s.variable()+"]")
	}
}

// loadConfig reads the configuration of a command that has these settings: flag
// beats variable beats file beats base. An empty variable counts as unset.
func loadConfig(cmd *cobra.Command, base config.Config, settings ...setting) (config.Config, error) {
	var given []strictyaml.Setting
	for _, s := range settings {
		if value, source, ok := lookup(cmd, s); ok {
			given = append(given, strictyaml.Setting{Key: s.key, Value: value, Source: source})
		}
	}
	file, _, _ := lookup(cmd, configFlag)
	return config.Load(base, file, given...)
}

// lookup finds the value of a setting and where it comes from; ok is false if neither the
// flag nor the variable is set.
func lookup(cmd *cobra.Command, s setting) (value, source string, ok bool) {
	if f := cmd.Flags().Lookup(s.flag); f != nil && f.Changed {
		return f.Value.String(), "--" + s.flag, true
	}
	value = os.Getenv(s.variable())
	return value, s.variable(), value != ""
}
