package hostname

import "testing"

func TestPart(t *testing.T) {
	const bücher = "https://xn--bcher-kva.example:8443"
	for _, test := range []struct {
		part, host string
		want       bool
	}{
		{"", "a.example", true},
		{"A.Ex", "a.example", true},
		{"b.ex", "a.example", false},
		{"bücher", bücher, true},
		{"BÜCHER.example:8443", bücher, true},
		{"https://bü", bücher, true},
		{"bu\u0308cher", bücher, true}, // u and a combining diaeresis
		{"xn--bcher-kva", bücher, true},
		{"bucher", bücher, false},
		{"ü", "http://example.com", false},
		{"example:8443", bücher, true},
		{"xn--", "xn--\xff.example", true},
		{"例え", "xn--r8jz45g.xn--zckzah:80", true},
		{"テスト:80", "xn--r8jz45g.xn--zckzah:80", true},
	} {
		if got := PartOf(test.part).In(test.host); got != test.want {
			t.Errorf("%q in %s: %t", test.part, test.host, got)
		}
	}
}
