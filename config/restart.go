package config

import (
	"reflect"
	"slices"
	"strings"

	"robotsproxy/config/strictyaml"
)

// reloadable are the keys and sections whose values a running proxy can replace. The others keep their
// values until it is restarted.
var reloadable = []string{
	"shutdown_grace", "log.level", "log.decisions", "clients", "listen_tls.cert", "listen_tls.key", "https.mode", "https.passthrough", "https.mixed_tunnel",
	"identities", "default_identity", "robots", "preferences", "overrides", "overrides_need_reason", "pace", "limits.stall_timeout",
	"run", // which a running proxy does not use
}

// NeedsRestart returns the keys in which c differs from the configuration that a proxy was
// started with, and whose values a running proxy cannot replace.
func (c Config) NeedsRestart(started Config) []string {
	var keys []string
	before := strictyaml.AllKeys(started)
	for i, key := range strictyaml.AllKeys(c) {
		if !key.IsSection() && !isReloadable(key.Path) && !reflect.DeepEqual(key.Value.Interface(), before[i].Value.Interface()) {
			keys = append(keys, key.Path)
		}
	}
	return keys
}

// IsBeingWritten reports whether a running proxy must not go on with c in place of current,
// because its file has not one octet: so is a file that is just being written.
func (c Config) IsBeingWritten(current Config) bool {
	return c.file.IsEmpty() && !current.file.IsEmpty()
}

func isReloadable(key string) bool {
	return slices.ContainsFunc(reloadable, func(r string) bool { return key == r || strings.HasPrefix(key, r+".") })
}
