package conns

import (
	"strings"
	"testing"
)

func TestWarningOfFewFiles(t *testing.T) {
	for _, test := range []struct {
		max   int
		files int64
		want  string
	}{
		{0, 0, ""},
		{100, 0, ""},
		{0, 20_000, ""},
		{0, 64, "leaves room for only 32 connections"},
		{100, 1024, ""},
		{384, 1024, ""},
		{385, 1024, "limits.max_connections is 385, but the limit on open files (1024) leaves room for 768"},
	} {
		got := Limits{MaxConnections: test.max}.Warning(test.files)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%d connections, %d files: %q", test.max, test.files, got)
		}
	}
}
