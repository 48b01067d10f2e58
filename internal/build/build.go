// Package build knows which build of the program runs.
package build

import "runtime/debug"

// Version is what the Go toolchain recorded about the source: "devel" and "unknown" if it
// recorded nothing.
func Version() (version, commit string) {
	version, commit = "devel", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return version, commit
}
