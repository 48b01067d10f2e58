package enum

import "testing"

type color string

const (
	red   color = "red"
	green color = "green"
)

func TestUnmarshal(t *testing.T) {
	for text, fault := range map[string]string{
		"red":   "",
		"green": "",
		"Red":   `"Red" is none of red, green`,
		"":      `"" is none of red, green`,
		"red ":  `"red " is none of red, green`,
		"\x1b":  `"\x1b" is none of red, green`,
	} {
		c := color("before")
		err := Unmarshal(&c, []byte(text), red, green)
		if fault == "" {
			if err != nil || string(c) != text {
				t.Errorf("%q: %q, %v", text, c, err)
			}
			continue
		}
		if err == nil || err.Error() != fault || c != "before" {
			t.Errorf("%q: %q, %v; want the error %s", text, c, err, fault)
		}
	}
}
