//go:build unix

package dbfile

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(hurried, path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	time.AfterFunc(30*time.Millisecond, unlock)
	unlock, err = lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
