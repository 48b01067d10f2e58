// Package build knows which build of the program runs.
package build

import "runtime/debug"

// The linker sets them where the source is built outside its repository, as for the container image
// (-X …/internal/build.version=v1.2.3). Elsewhere they are "".
var version, commit string

// Version is the version of the source and its commit: what the linker was told of them, else
// what the Go toolchain found in the repository, else "devel" and "unknown".
func Version() (string, string) {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionOf is Version of a program that was built with this information, which may be nil.
func versionOf(info *debug.BuildInfo) (v, c string) {
	v, c = "devel", "unknown"
	if info != nil {
		if main := info.Main.Version; main != "" && main != "(devel)" {
			v = main
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	if version != "" {
		v = version
	}
	if commit != "" {
		c = commit
	}
	return v, c
}
