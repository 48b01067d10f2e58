package identity

import (
	"net/http"
	"testing"

	"robotsproxy/robots"
)

func TestIdentitiesThatDoNotSignPayNothing(t *testing.T) {
	table, err := (Table{Default: Default()}).Load()
	if err != nil {
		t.Fatal(err)
	}
	id := &table.Default
	target, err := robots.ParseTarget("https://example.com/a?b=c")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{"Signature-Agent": {`"https://stray.example"`}}
	allocated := testing.AllocsPerRun(100, func() {
		if signature, err := id.Sign(h, http.MethodGet, target, ""); err != nil || signature != (Signature{}) {
			t.Errorf("it signs: %+v %v", signature, err)
		}
		if id.Signs() || id.FetchSigner() != nil || id.Keys() != nil {
			t.Error("it has a signer")
		}
	})
	if allocated > 0 || len(h) != 1 {
		t.Errorf("%v allocations, and the header is %v", allocated, h)
	}
}
