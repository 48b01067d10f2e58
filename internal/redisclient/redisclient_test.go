//go:build unix

package redisclient_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"robotsproxy/internal/redisclient"
	"robotsproxy/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ping(ctx context.Context, rdb redis.Cmdable) error { return rdb.Exists(ctx, "robotsproxy:").Err() }

// A server that doesn't answer costs one wait. Then it is left alone for the cooldown, but
// by those who ask anyway, and an answer ends that.
func TestServerThatDoesNotAnswer(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Timeout = 50 * time.Millisecond
	c.Cooldown = time.Hour
	server.Pause()
	if err := c.Ask(t.Context(), ping); err == nil || errors.Is(err, redisclient.ErrAway) || !strings.Contains(err.Error(), server.Address) {
		t.Errorf("the first: %v", err)
	}
	for range 1000 {
		if err := c.Ask(t.Context(), func(context.Context, redis.Cmdable) error {
			t.Error("it is asked")
			return nil
		}); !errors.Is(err, redisclient.ErrAway) {
			t.Fatalf("the next: %v", err)
		}
	}
	if err := c.AskAnyway(t.Context(), c.Timeout, ping); err == nil || errors.Is(err, redisclient.ErrAway) {
		t.Errorf("one who asks anyway: %v", err)
	}
	server.Continue()
	if err := c.AskAnyway(t.Context(), 10*time.Second, ping); err != nil {
		t.Fatal(err)
	}
	asked := false
	if err := c.Ask(t.Context(), func(context.Context, redis.Cmdable) error {
		asked = true
		return nil
	}); err != nil || !asked {
		t.Errorf("after an answer: %v", err)
	}
}

// When the cooldown is over, one question finds out for all whether the server is back.
func TestOneTriesForAll(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Cooldown = time.Nanosecond
	server.Kill()
	if err := c.Ask(t.Context(), ping); err == nil {
		t.Fatal("a server that was killed answers")
	}
	c.Cooldown = time.Hour // nobody asks at the moment
	var asked atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			c.Ask(t.Context(), func(ctx context.Context, rdb redis.Cmdable) error {
				asked.Add(1)
				return ping(ctx, rdb)
			})
		})
	}
	all.Wait()
	if asked.Load() != 1 {
		t.Errorf("%d asked", asked.Load())
	}
	server.Restart()
	if err := c.AskAnyway(t.Context(), c.Timeout, ping); err != nil {
		t.Fatal(err)
	}
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// An error reply is an answer: the server is there.
func TestErrorRepliesAreAnswers(t *testing.T) {
	c := redistest.Start(t).Client()
	c.Cooldown = time.Hour
	for range 3 {
		var reply redis.Error
		err := c.Ask(t.Context(), func(ctx context.Context, rdb redis.Cmdable) error {
			return rdb.ScriptKill(ctx).Err()
		})
		if !errors.As(err, &reply) {
			t.Fatalf("got %v", err)
		}
	}
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// A caller who leaves says nothing about the server.
func TestCallerLeaves(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client()
	c.Cooldown = time.Hour
	server.Pause()
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, leave)
	if err := c.Ask(ctx, ping); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	server.Continue()
	if err := c.Ask(t.Context(), ping); err != nil {
		t.Error(err)
	}
}

// A server that is far away is not taken for one that does not answer.
func TestFarAway(t *testing.T) {
	server := redistest.Start(t)
	address := server.Delay(300 * time.Millisecond)
	c := redistest.Open(t, redisclient.Options{URL: strings.Replace(server.URL(), server.Address, address, 1)})
	c.Timeout, c.Cooldown = 50*time.Millisecond, time.Hour
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.Ask(t.Context(), ping); err != nil {
			t.Error(err)
		}
	}
}

// A question that times out is asked again of a server that answers others meanwhile.
func TestSlowAnswers(t *testing.T) {
	c := redistest.Start(t).Client()
	c.Cooldown = time.Hour
	tries := 0
	err := c.Ask(t.Context(), func(context.Context, redis.Cmdable) error {
		if tries++; tries < 3 {
			if err := c.Ask(t.Context(), ping); err != nil {
				t.Error(err)
			}
			return context.DeadlineExceeded
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
}
