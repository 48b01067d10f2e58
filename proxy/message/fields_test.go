package message

import (
	"strings"
	"testing"
)

func TestOwnMembersOfProxyStatusAreDropped(t *testing.T) {
	for _, test := range []struct{ field, want string }{
		{"robotsproxy; error=http_request_denied", ""},
		{"ROBOTSPROXY", ""},
		{`"robotsproxy"; error=http_request_denied`, ""},
		{`"robots\proxy"`, ""},
		{"cdn; error=dns_error", "cdn; error=dns_error"},
		{"robotsproxy2; error=dns_error", "robotsproxy2; error=dns_error"},
		{"cdn; error=dns_error, robotsproxy; error=http_request_denied,other", "cdn; error=dns_error,other"},
		{`cdn; details="a, robotsproxy; error=x"`, `cdn; details="a, robotsproxy; error=x"`},
		{`cdn; details="a\", robotsproxy; error=x"`, `cdn; details="a\", robotsproxy; error=x"`},
		{`cdn; details="a\\", robotsproxy; error=x`, `cdn; details="a\\"`},
		{"cdn; details=\"a\nb\", robotsproxy; error=x", `cdn; details="a,b"`}, // two lines of one field
		{`cdn; details="a, robotsproxy; error=x`, ""},
		{"a\nrobotsproxy;error=x\nb", "a,b"},
		{" \trobotsproxy\t; error=x", ""},
	} {
		h := map[string][]string{"Proxy-Status": strings.Split(test.field, "\n")}
		dropOwnStatus(h, "robotsproxy")
		if got := strings.Join(h["Proxy-Status"], "|"); got != test.want {
			t.Errorf("%q: %q, want %q", test.field, got, test.want)
		}
	}
}
