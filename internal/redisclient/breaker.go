package redisclient

import (
	"sync/atomic"
	"time"
)

// breaker is a circuit breaker. A question without an answer opens it. It stays open for
// a cooldown, then lets one question through for each further cooldown, and the first
// answer closes it.
type breaker struct {
	epoch      time.Time    // its times are durations since then, free of changes of the wall clock
	lastAnswer atomic.Int64 // when the server last answered
	openUntil  atomic.Int64 // 0: closed
	usual      atomic.Int64 // how long an answer takes, smoothed; 0 before the first one
}

// answerTime is how long an answer usually takes.
func (b *breaker) answerTime() time.Duration { return time.Duration(b.usual.Load()) }

func (b *breaker) now() time.Duration { return time.Since(b.epoch) }

// allows reports whether the server may be asked. When a cooldown is over, it lets one
// caller try; the others wait for the outcome or the next cooldown.
func (b *breaker) allows(cooldown time.Duration) bool {
	until := b.openUntil.Load()
	if until == 0 {
		return true
	}
	now := b.now()
	return now >= time.Duration(until) && b.openUntil.CompareAndSwap(until, int64(now+cooldown))
}

func (b *breaker) open(cooldown time.Duration) { b.openUntil.Store(int64(b.now() + cooldown)) }

// close notes an answer to a question that began at a time.
func (b *breaker) close(begun time.Duration) {
	now := b.now()
	b.lastAnswer.Store(int64(now))
	took, usual := int64(now-begun), b.usual.Load()
	if usual > 0 {
		took = usual + (took-usual)/8 // as TCP smooths its round trips (RFC 6298)
	}
	b.usual.Store(took)
	b.openUntil.Store(0)
}

// answeredSince reports whether the server has answered anyone after a time.
func (b *breaker) answeredSince(t time.Duration) bool { return time.Duration(b.lastAnswer.Load()) > t }
