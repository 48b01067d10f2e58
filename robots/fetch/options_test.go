package fetch

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		change func(*Options)
		key    string
	}{
		{func(o *Options) { o.MinTTL = 48 * time.Hour }, "min_ttl: "},
		{func(o *Options) { o.MaxRedirects = -1 }, "max_redirects: "},
		{func(o *Options) { o.MaxBytes = 0 }, "max_bytes: "},
		{func(o *Options) { o.MaxBytes = 1<<30 + 1 }, "max_bytes: "},
		{func(o *Options) { o.MaxBytes = math.MaxInt64 }, "max_bytes: "},
		{func(o *Options) { o.Statuses = map[int]Meaning{99: MeansAllow} }, "statuses.99: "},
		{func(o *Options) { o.Statuses = map[int]Meaning{600: MeansAllow} }, "statuses.600: "},
	} {
		err := with(test.change).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), test.key) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one error at %s, got %v", test.key, err)
		}
	}
	if err := with(func(o *Options) { o.MaxBytes = 1 << 30 }).Validate(); err != nil {
		t.Error(err)
	}
}

func TestMeaningRefusesOtherWords(t *testing.T) {
	var m Meaning
	if err := m.UnmarshalText([]byte("allowed")); err == nil || !strings.Contains(err.Error(), "disallow") {
		t.Errorf("got %v, want an error that names the words", err)
	}
	for _, word := range []string{"allow", "Allow"} {
		if err := m.UnmarshalText([]byte(word)); err != nil || m != MeansAllow {
			t.Errorf("%s: got %q, %v", word, m, err)
		}
	}
}
