package enum

import "testing"

type color string

const (
	red   color = "red"
	green color = "green"
)

func TestUnmarshal(t *testing.T) {
	for _, text := range []string{"red", "Red", "RED"} {
		c := color("before")
		if err := Unmarshal(&c, []byte(text), green, red); err != nil || c != red {
			t.Errorf("%q: %q, %v", text, c, err)
		}
	}
	for text, fault := range map[string]string{
		"":     `"" is none of red, green`,
		"red ": `"red " is none of red, green`,
		"\x1b": `"\x1b" is none of red, green`,
	} {
		c := color("before")
		err := Unmarshal(&c, []byte(text), red, green)
		if err == nil || err.Error() != fault || c != "before" {
			t.Errorf("%q: %q, %v; want the error %s", text, c, err, fault)
		}
	}
}
