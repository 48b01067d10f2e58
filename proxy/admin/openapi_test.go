package admin

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestEveryRouteIsDescribed(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, methods := range doc.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(described)
	if routes := slices.Sorted(maps.Keys((&Admin{}).routes())); !slices.Equal(described, routes) {
		t.Errorf("openapi.json describes\n%q, the routes are\n%q", described, routes)
	}
}
