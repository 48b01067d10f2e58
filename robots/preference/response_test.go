package preference

import (
	"strings"
	"testing"
)

func TestOfResponse(t *testing.T) {
	tokens := []string{"ExampleBot-Image", "ExampleBot"}
	for _, test := range []struct {
		field, purposes, want string
	}{
		{"Content-Usage: train-ai=n", "ai-train", "response: content-usage: train-ai=n"},
		{"Content-Usage: train-ai=n", "search ai-input", ""},
		{"Content-Usage: train-ai=y", "ai-train", ""},
		{"Content-Usage: search=y\nContent-Usage: ai-use=n", "search ai-input", "response: content-usage: ai-use=n"},
		{"Content-Usage: train-ai=n\nContent-Usage: train-ai=y", "ai-train", ""}, // of a key that is repeated, the last counts
		{"Content-Usage: train-ai=n\nContent-Usage: Search=y", "ai-train", ""},   // as a whole it does not parse
		{"Content-Usage: ", "ai-train", ""},
		{"Content-Usage: train-ai=?0", "ai-train", ""},
		{"Content-Usage: search=y\nContent-Usage: train-ai=n;x", "ai-train", "response: content-usage: train-ai=n"},
		{"Tdm-Reservation: 1", "ai-train", "response: tdm-reservation: 1"},
		{"Tdm-Reservation: 1", "ai-input", "response: tdm-reservation: 1"},
		{"Tdm-Reservation: 1", "search", ""},
		{"Tdm-Reservation: 0", "ai-train", ""},
		{"Tdm-Reservation: 0\nTdm-Reservation: 1", "ai-train", "response: tdm-reservation: 1"},
		{"Tdm-Reservation: 0, 1", "ai-train", "response: tdm-reservation: 1"},
		{"Tdm-Reservation: 10", "ai-train", ""},
		{"X-Robots-Tag: noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: noai", "search ai-input", ""},
		{"X-Robots-Tag: noindex, NoImageAI", "ai-train", "response: x-robots-tag: noimageai"},
		{"X-Robots-Tag: noindex\nX-Robots-Tag: noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: otherbot: noai", "ai-train", ""},
		{"X-Robots-Tag: otherbot: noindex, noai", "ai-train", ""},
		{"X-Robots-Tag: otherbot: noindex\nX-Robots-Tag: noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: otherbot: noindex, examplebot: noai", "ai-train", "response: x-robots-tag: noai"}, // two lines that somebody has joined
		{"X-Robots-Tag: ExampleBot: noindex, noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: examplebot/2.0 : noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: example: noai", "ai-train", ""},
		{"X-Robots-Tag: *: noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: max-snippet:-1, noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: unavailable_after: 25 Jun 2025 15:00:00 PST, noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, noai", "ai-train", "response: x-robots-tag: noai"},
		{"X-Robots-Tag: noaix, no ai", "ai-train", ""},
		{"X-Robots-Tag: :noai", "ai-train", ""},
	} {
		r, refused := OfResponse(fields(test.field), tokens, useOf(t, test.purposes))
		got := ""
		if refused {
			got = r.String()
		}
		if got != test.want {
			t.Errorf("%q to %s: %q, want %q", test.field, test.purposes, got, test.want)
		}
	}
}

// fields reads lines of a header.
func fields(text string) map[string][]string {
	header := map[string][]string{}
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		header[name] = append(header[name], strings.Trim(value, white))
	}
	return header
}

func useOf(t *testing.T, purposes string) Use {
	t.Helper()
	use, err := ParseUse(strings.Fields(purposes), "")
	if err != nil {
		t.Fatal(err)
	}
	return use
}

// Whatever a site sends, it refuses only what is declared, and a line to another bot nothing.
func FuzzOfResponse(f *testing.F) {
	f.Add("train-ai=n", "1", "otherbot: noai, examplebot: noimageai")
	f.Add("ai-use=n;a=\"b\"", "0,1", "unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, noai")
	f.Fuzz(func(t *testing.T, usage, reservation, tag string) {
		header := map[string][]string{"Content-Usage": {usage}, "Tdm-Reservation": {reservation}, "X-Robots-Tag": {tag}}
		if r, refused := OfResponse(header, []string{"ExampleBot"}, Use{Content: Full}); refused {
			t.Errorf("%v is refused to a bot without purposes", r)
		}
		one, _ := OfResponse(header, []string{"ExampleBot"}, Use{Purposes: AITrain.bit()})
		all, refused := OfResponse(header, []string{"ExampleBot"}, Use{Purposes: Search.bit() | AIInput.bit() | AITrain.bit()})
		if one != (Refusal{}) && !refused {
			t.Errorf("%v is refused to one purpose, and not to all", one)
		}
		if refused && (all.Source != Response || all.Line != 0 || len(all.Preference) > 40) {
			t.Errorf("refused by %+v", all)
		}
		if r, refused := OfResponse(map[string][]string{"X-Robots-Tag": {"otherbot: " + strings.ReplaceAll(tag, ":", "")}}, []string{"ExampleBot"}, Use{Purposes: AITrain.bit()}); refused {
			t.Errorf("what otherbot is told refuses %v", r)
		}
	})
}
