package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// How long Redis may take: for what requests wait for, and for what they don't.
// One that did not answer is then left alone for a while, so that what it costs
// is one short wait now and then. They are variables because tests give slow machines
// more.
var (
	shortWait = 250 * time.Millisecond
	longWait  = 2 * time.Second
)

const leftAlone = 5 * time.Second

// clockSkew is how far the clocks of a fleet may be apart.
const clockSkew = time.Minute

// endless is a history without end, which Redis counts in milliseconds.
const endless = 100 * 365 * 24 * time.Hour

// redisStore keeps records in a Redis server (6.2 or later) that several
// machines share.
type redisStore struct {
	client  *redis.Client
	address string       // for errors: it has no password
	keep    atomic.Int64 // set by SetKeep, in nanoseconds; 0: as long as history
	history time.Duration
	now     func() time.Time
	packer  packer

	places chan struct{} // holds a value for each connection in use

	// By the store's own clock, which begins when it is opened:
	opened   time.Time
	answered atomic.Int64 // when Redis last answered anything
	silent   atomic.Int64 // until when it is left alone; 0: it answers
}

// maxConnections is how many things may be asked at once. Others wait for a
// place: Redis is not slow only because there are many.
const maxConnections = 32

func init() { logging.Disable() } // it would write to standard error, past the program's log

// openRedis does not connect: a proxy starts, and goes on, without its Redis.
func openRedis(opts Options) (Store, error) {
	client, err := parseRedisURL(opts.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("opening the store of policies: redis_url: %w", err)
	}
	return newRedis(opts, client), nil
}

func newRedis(opts Options, client *redis.Options) *redisStore {
	client.ContextTimeoutEnabled = true
	client.DialTimeout, client.DialerRetries = longWait, 1
	client.ReadTimeout, client.WriteTimeout = longWait, longWait
	client.MaxRetries, client.MinRetryBackoff = 2, -1 // for connections that were broken while they lay idle
	client.PoolSize = maxConnections
	client.DisableIdentity = true
	client.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	s := &redisStore{
		client: redis.NewClient(client), address: client.Addr,
		history: opts.History, now: opts.Now,
		places: make(chan struct{}, maxConnections), opened: time.Now(),
	}
	if s.history <= 0 {
		s.history = endless
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// errRedisURL does not say what is wrong, as that would show a part of it, which
// may be one of the password.
var errRedisURL = errors.New("this is no address of a Redis server; write redis://USER:PASSWORD@HOST:6379/0, " +
	"with rediss for TLS, and percent-encode what is special in the password")

func parseRedisURL(address string) (*redis.Options, error) {
	opts, err := redis.ParseURL(address)
	if err != nil {
		return nil, errRedisURL
	}
	return opts, nil
}

func (s *redisStore) Close() error { return s.client.Close() }

// SetKeep says how long a record is kept once the lifetime of its answer has ended, for
// the sake of its text and its failures; before, that is as long as the history. It
// counts for the records that are put from then on.
func (s *redisStore) SetKeep(length time.Duration) { s.keep.Store(int64(length)) }

// soon asks Redis for what a request waits for, unless it has not answered of
// late.
func (s *redisStore) soon(ctx context.Context, ask func(context.Context) error) error {
	return s.within(ctx, shortWait, func(ctx context.Context) error {
		if until := s.silent.Load(); until != 0 {
			now := time.Since(s.opened)
			if now < time.Duration(until) || !s.silent.CompareAndSwap(until, int64(now+leftAlone)) { // one tries, not all
				return errSilent
			}
		}
		return ask(ctx)
	})
}

var errSilent = errors.New("it did not answer just now")

// maxTries is how often something is asked of a Redis that answers others
// meanwhile: it is there, but it or this machine has much to do.
const maxTries = 4

// within asks Redis, for so long at most each time.
func (s *redisStore) within(ctx context.Context, wait time.Duration, ask func(context.Context) error) error {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for try := 1; ; try++ {
		begun := int64(time.Since(s.opened))
		limited, cancel := context.WithTimeout(ctx, wait)
		err := ask(limited)
		cancel()
		var reply redis.Error
		switch {
		case err == nil, errors.As(err, &reply):
			s.answered.Store(int64(time.Since(s.opened)))
			s.silent.Store(0)
		case ctx.Err() != nil:
			return ctx.Err() // then it is not Redis
		case err == errSilent:
		case s.answered.Load() <= begun:
			s.silent.Store(int64(time.Since(s.opened) + leftAlone))
		case try < maxTries:
			continue
		}
		if err != nil {
			return fmt.Errorf("asking the Redis at %s: %w", s.address, err)
		}
		return nil
	}
}
