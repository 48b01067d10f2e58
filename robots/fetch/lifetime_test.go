package fetch

import (
	"net/http"
	"testing"
	"time"
)

func TestLifetime(t *testing.T) {
	opts := with(func(o *Options) { o.TTL, o.MinTTL, o.MaxTTL = 6*time.Hour, 5*time.Minute, 24*time.Hour })
	short := with(func(o *Options) { o.TTL = time.Second })
	if got := short.lifetime(nil); got != time.Second {
		t.Errorf("a ttl under min_ttl: %v, want 1s", got)
	}
	long := with(func(o *Options) { o.TTL = 48 * time.Hour })
	if got := long.lifetime(nil); got != 24*time.Hour {
		t.Errorf("a ttl over max_ttl: %v, want 24h", got)
	}
	for _, test := range []struct {
		header []string
		want   time.Duration
	}{
		{nil, 6 * time.Hour},
		{[]string{""}, 6 * time.Hour},
		{[]string{"public"}, 6 * time.Hour},
		{[]string{"max-age=3600"}, time.Hour},
		{[]string{"MAX-AGE=3600, public"}, time.Hour},
		{[]string{"public", "max-age=3600"}, time.Hour},
		{[]string{`max-age="3600"`}, time.Hour},
		{[]string{"public,,max-age=3600,"}, time.Hour},
		{[]string{"max-age=3600, max-age=7200"}, time.Hour},
		{[]string{"max-age=0"}, 5 * time.Minute},
		{[]string{"max-age=60"}, 5 * time.Minute},
		{[]string{"max-age=864000"}, 24 * time.Hour},
		{[]string{"max-age=2147483648"}, 24 * time.Hour},
		{[]string{"max-age=99999999999999999999999"}, 24 * time.Hour},
		{[]string{"max-age=-1"}, 6 * time.Hour},
		{[]string{"max-age=1h"}, 6 * time.Hour},
		{[]string{"max-age=3600.5"}, 6 * time.Hour},
		{[]string{"max-age="}, 6 * time.Hour},
		{[]string{"max-age"}, 6 * time.Hour},
		{[]string{"max-age = 3600"}, 6 * time.Hour},
		{[]string{"max-age=x, max-age=3600"}, 6 * time.Hour},
		{[]string{"s-maxage=3600"}, 6 * time.Hour},
		{[]string{"no-store"}, 5 * time.Minute},
		{[]string{"No-Cache, max-age=3600"}, 5 * time.Minute},
		{[]string{"max-age=3600, no-store"}, 5 * time.Minute},
		{[]string{`private="max-age=60, no-store", max-age=3600`}, time.Hour},
		{[]string{`ext="a\", no-store, ", max-age=3600`}, time.Hour},
		{[]string{`ext="never closed, max-age=3600`}, 6 * time.Hour},
	} {
		h := http.Header{"Cache-Control": test.header, "Expires": {"Thu, 01 Jan 1970 00:00:00 GMT"}}
		if got := opts.lifetime(h); got != test.want {
			t.Errorf("Cache-Control %q: %v, want %v", test.header, got, test.want)
		}
	}
}

func FuzzLifetime(f *testing.F) {
	for _, seed := range []string{"", "max-age=60", "no-store", `a="b\",c", max-age=1`, `max-age="99999999999999999999"`, ",,=,"} {
		f.Add(seed)
	}
	opts := Defaults()
	f.Fuzz(func(t *testing.T, header string) {
		got := opts.lifetime(http.Header{"Cache-Control": {header}})
		if got < opts.MinTTL || got > opts.MaxTTL {
			t.Errorf("%q: %v is out of bounds", header, got)
		}
		// A header line may be cut at any comma outside a quoted string.
		first, rest := cutDirective(header)
		if rest != "" && opts.lifetime(http.Header{"Cache-Control": {first, rest}}) != got {
			t.Errorf("%q means something else on two lines", header)
		}
	})
}
