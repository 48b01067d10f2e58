package proxy

import (
	"net/http"
	"net/http/httptrace"
	"testing"
)

// A first request that panics keeps nobody waiting.
func TestFirstRequestThatPanics(t *testing.T) {
	s := newSharing(&http.Transport{})
	r, err := http.NewRequest(http.MethodGet, "https://site.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { panic("fault") }}))
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("it did not panic")
			}
		}()
		s.RoundTrip(r)
	}()
	if o := s.byHost["site.test"]; o != nil {
		t.Error("others still wait for it")
	}
}
