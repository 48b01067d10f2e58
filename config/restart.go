package config

import (
	"reflect"
	"slices"
)

// live are the keys that a running proxy can put other values in the place of. The
// others keep theirs until it is started again.
var live = []string{
	"shutdown_grace", "log.level", "log.decisions", "clients", "https.mode", "https.passthrough", "https.mixed_tunnel",
	"identities", "default_identity", "robots", "overrides", "pace", "limits.stall_timeout",
}

// NeedsRestart names the keys in which c differs from what a proxy was started with,
// and that it can't change while it runs.
func (c Config) NeedsRestart(started Config) []string {
	return differences("", reflect.ValueOf(c), reflect.ValueOf(started))
}

func differences(path string, a, b reflect.Value) (keys []string) {
	theirs := fields(b)
	for i, f := range fields(a) {
		key := join(path, f.key)
		switch {
		case slices.Contains(live, key):
		case f.value.Kind() == reflect.Struct && !isScalar(f.value):
			keys = append(keys, differences(key, f.value, theirs[i].value)...)
		case !reflect.DeepEqual(f.value.Interface(), theirs[i].value.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
