package store_test

import (
	"strings"
	"testing"

	"robotsproxy/internal/redisclient"
	"robotsproxy/robots/store"
)

func TestKinds(t *testing.T) {
	var k store.Kind
	for _, name := range []string{"sqlite", "redis", "none"} {
		if err := k.UnmarshalText([]byte(name)); err != nil || string(k) != name {
			t.Errorf("%s: got %q, %v", name, k, err)
		}
	}
	for _, name := range []string{"", "memcached"} {
		if err := k.UnmarshalText([]byte(name)); err == nil || !strings.Contains(err.Error(), "sqlite") || k != store.None {
			t.Errorf("%q: got %q, %v", name, k, err)
		}
	}
}

func TestRedisURLIsChecked(t *testing.T) {
	err := (store.Options{Server: redisclient.Options{URL: "redis://:secret#x@127.0.0.1:6379"}}).Validate()
	if err == nil || !strings.HasPrefix(err.Error(), "redis_url: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}
