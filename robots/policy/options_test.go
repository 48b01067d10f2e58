package policy

import (
	"strings"
	"testing"
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
		{func(o *Options) { o.RetryMin = hour }, "retry_min: "},
		{func(o *Options) { o.MaxFetches = 0 }, "max_fetches: "},
		{func(o *Options) { o.MaxBytes = 0 }, "max_bytes: "},
	} {
		err := with(test.change).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), test.key) || strings.Contains(err.Error(), "\n") {
			t.Errorf("want one error at %s, got %v", test.key, err)
		}
	}
	several := with(func(o *Options) { o.MaxBytes, o.MaxFetches = 0, 0 }).Validate()
	if strings.Count(several.Error(), "\n") != 1 {
		t.Errorf("want two errors, got %v", several)
	}
}
