package sealed

import (
	"strings"
	"testing"

	"robotsproxy/internal/keyerr"
)

func TestOptionsAreValidated(t *testing.T) {
	many := make([]Port, 101)
	for i := range many {
		many[i] = Port(1000 + i)
	}
	for want, o := range map[string]Options{
		"":                        Defaults(),
		"none":                    {},
		"ports[1]: port 53":       {Ports: []Port{80, 53}},
		"forward[0]: port 53":     {Forward: []Port{53}},
		"forward[2]: 5432 is the": {Forward: []Port{5432, 6379, 5432}},
		"forward: forward and ports have 101 ports together; 100 are": {Forward: many},
	} {
		err := o.Validate()
		if want == "" || want == "none" {
			if err != nil {
				t.Errorf("%v: %v", o, err)
			}
			continue
		}
		if faults := keyerr.All(err); len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), want) {
			t.Errorf("%v: %v, want %s", o, err, want)
		}
	}
}
