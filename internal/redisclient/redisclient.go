// Package redisclient asks the Redis server that the proxies of a fleet share. All parts
// of a proxy ask by one [Client]: it has one pool of connections and one circuit breaker,
// so that a server which is slow or gone costs a request one short wait now and then, and
// the others nothing.
package redisclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// maxConnections bounds the questions that are under way at once. Further ones wait,
	// and that wait counts towards no timeout: the server isn't slow because there are many.
	maxConnections = 32
	// maxTries is how often a question is asked of a server that answers others
	// meanwhile: it is there, but it or this machine is busy.
	maxTries = 4
	// maxTimeout is the longest that a request waits for one answer of a server that is far away.
	maxTimeout = 2 * time.Second
	// dialTimeout and ioTimeout bound the connecting that goes on after a question has
	// timed out. Questions have shorter bounds.
	dialTimeout = 2 * time.Second
	ioTimeout   = 10 * time.Second
)

func init() { logging.Disable() } // go-redis writes to standard error, past the program's log

// A Client asks one Redis server (6.2 or later). It is safe for concurrent use. Its
// fields must not change once it is in use.
type Client struct {
	// Timeout bounds each try of [Client.Ask], unless the server is far away: then a try may take
	// four times as long as answers have taken, up to two seconds.
	Timeout time.Duration
	// Cooldown is how long a server that left a question unanswered is asked nothing
	// that a request waits for.
	Cooldown time.Duration

	address address
	redis   redis.UniversalClient
	slots   chan struct{} // holds a value for each question under way
	breaker breaker
}

// Open makes a client of the server that opts name. It does not connect: a proxy starts, and
// goes on, without its Redis. Callers must call Close.
func Open(opts Options) (*Client, error) {
	a, err := parseURL(opts.URL)
	if err != nil {
		return nil, err
	}
	security, err := opts.tls(a)
	if err != nil {
		return nil, err
	}
	return &Client{
		Timeout:  250 * time.Millisecond,
		Cooldown: 5 * time.Second,
		address:  a,
		redis:    connect(a, security),
		slots:    make(chan struct{}, maxConnections),
		breaker:  breaker{epoch: time.Now()},
	}, nil
}

// connect makes the library's client of an address.
func connect(a address, security *tls.Config) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:            a.hosts,
		IsClusterMode:    a.kind == cluster,
		MasterName:       a.master,
		SentinelUsername: a.sentinelUser,
		SentinelPassword: a.sentinelPassword,
		Username:         a.user,
		Password:         a.password,
		DB:               a.database,
		TLSConfig:        security,

		ContextTimeoutEnabled: true,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		MaxRetries:            2, // for connections that broke while they were idle
		MinRetryBackoff:       -1,
		PoolSize:              maxConnections,
		PipelinePoolSize:      -1, // pipelines use the same connections
		DisableIdentity:       true,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Close closes the connections. What is asked from then on fails.
func (c *Client) Close() error { return c.redis.Close() }

// ErrAway is the error of a question that was not asked, because the server left another
// one unanswered a moment ago.
var ErrAway = errors.New("it did not answer just now")

// Ask has question ask the server for what a request waits for. Timeout bounds each try. While the circuit breaker is open, Ask returns [ErrAway] at once.
//
// question may run several times, and must be safe to repeat. An error reply of the
// server is an answer: Ask returns it, and the breaker stays closed. All errors name the
// server without its password, but for ctx's own, which say nothing about the server.
func (c *Client) Ask(ctx context.Context, question func(context.Context, redis.Cmdable) error) error {
	timeout := max(c.Timeout, min(4*c.breaker.answerTime(), maxTimeout))
	return c.ask(ctx, timeout, func(ctx context.Context, r redis.Cmdable) error {
		if !c.breaker.allows(c.Cooldown) {
			return ErrAway
		}
		return question(ctx, r)
	})
}

// AskAnyway is [Client.Ask] for what no request waits for: each try may take timeout, and
// the server is asked even while the circuit breaker is open.
func (c *Client) AskAnyway(ctx context.Context, timeout time.Duration, question func(context.Context, redis.Cmdable) error) error {
	return c.ask(ctx, timeout, question)
}

func (c *Client) ask(ctx context.Context, timeout time.Duration, question func(context.Context, redis.Cmdable) error) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for try := 1; ; try++ {
		begun := c.breaker.now()
		limited, cancel := context.WithTimeout(ctx, timeout)
		err := question(limited, c.redis)
		cancel()
		var reply redis.Error
		switch {
		case err == nil, errors.As(err, &reply):
			c.breaker.close(begun)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrAway):
		case !c.breaker.answeredSince(begun):
			c.breaker.open(c.Cooldown)
		case try < maxTries:
			continue
		}
		if err != nil {
			return fmt.Errorf("asking the Redis at %s: %w", c.address, err)
		}
		return nil
	}
}
