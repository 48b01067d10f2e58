package store

import (
	"errors"
	"sync/atomic"
	"time"

	"robotsproxy/internal/redisclient"
)

// longTimeout bounds each question that no request waits for.
const longTimeout = 2 * time.Second

// maxClockSkew is how far the clocks of a fleet may be apart.
const maxClockSkew = time.Minute

// endless stands for a history without end: Redis wants a lifetime in milliseconds.
const endless = 100 * 365 * 24 * time.Hour

// redisStore keeps records in a Redis server that several machines share.
type redisStore struct {
	server  *redisclient.Client
	keep    atomic.Int64 // set by SetKeep, in nanoseconds; 0: as long as history
	history time.Duration
	now     func() time.Time
	packer  packer
}

func openRedis(opts Options) (Store, error) {
	if opts.Server == nil {
		return nil, errors.New("opening the store of policies: Server is nil, and Kind is redis")
	}
	s := &redisStore{server: opts.Server, history: opts.History, now: opts.Now}
	if s.history <= 0 {
		s.history = endless
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Close leaves the client to its owner.
func (s *redisStore) Close() error { return nil }

// SetKeep says how long a record is kept once the lifetime of its answer has ended, for
// the sake of its text and its failures; before, that is as long as the history. It
// counts for the records that are put from then on.
func (s *redisStore) SetKeep(length time.Duration) { s.keep.Store(int64(length)) }
