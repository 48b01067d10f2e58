package config

import (
	"reflect"
	"slices"
)

// reloadable are the keys whose values a running proxy can replace. The others keep their
// values until it is restarted.
var reloadable = []string{
	"shutdown_grace", "log.level", "log.decisions", "clients", "listen_tls.cert", "listen_tls.key", "https.mode", "https.passthrough", "https.mixed_tunnel",
	"identities", "default_identity", "robots", "preferences", "overrides", "overrides_need_reason", "pace", "limits.stall_timeout",
	"run", // which a running proxy does not use
}

// NeedsRestart returns the keys in which c differs from the configuration that a proxy was
// started with, and whose values a running proxy cannot replace.
func (c Config) NeedsRestart(started Config) []string {
	return differences("", reflect.ValueOf(c), reflect.ValueOf(started))
}

func differences(path string, a, b reflect.Value) (keys []string) {
	theirs := fields(b)
	for i, f := range fields(a) {
		key := join(path, f.key)
		switch {
		case slices.Contains(reloadable, key):
		case f.value.Kind() == reflect.Struct && !isScalar(f.value):
			keys = append(keys, differences(key, f.value, theirs[i].value)...)
		case !reflect.DeepEqual(f.value.Interface(), theirs[i].value.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
