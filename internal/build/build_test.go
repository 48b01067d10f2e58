package build

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}},
	}
	for _, c := range []struct {
		name            string
		version, commit string // as the linker sets them
		info            *debug.BuildInfo
		want            [2]string
	}{
		{name: "in a repository", info: recorded, want: [2]string{"v1.2.3", "abc"}},
		{name: "nothing is known", want: [2]string{"devel", "unknown"}},
		{name: "outside a repository", info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, want: [2]string{"devel", "unknown"}},
		{name: "by the linker", version: "v2.0.0", commit: "def", info: recorded, want: [2]string{"v2.0.0", "def"}},
		{name: "by the linker, the version alone", version: "v2.0.0", want: [2]string{"v2.0.0", "unknown"}},
	} {
		version, commit = c.version, c.commit
		if v, r := versionOf(c.info); [2]string{v, r} != c.want {
			t.Errorf("%s: %s, %s, want %s", c.name, v, r, c.want)
		}
	}
	version, commit = "", ""
}
