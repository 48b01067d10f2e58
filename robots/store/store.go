// Package store is where policies last: one record for each origin, over
// restarts and between processes.
package store

import (
	"context"
	"time"
)

// A Record is all that is known of an origin's robots.txt. Times are wall time
// in whole milliseconds; a zero time is none.
type Record struct {
	Origin string // as robots.Origin writes it

	// The last answer: 2xx, 4xx, redirects that lead nowhere, or a status that
	// the operator gave a meaning.
	Status    int    // its HTTP status; 0: there has been none
	Body      []byte // its text, of a 2xx answer
	SHA256    string // of Body in hex; empty if the answer was not 2xx
	UserAgent string // that got Body; empty: the program's own
	FetchedAt time.Time
	ExpiresAt time.Time

	// The failures since that answer.
	FailedSince  time.Time // the first of them
	FailedStatus int       // HTTP status of the last one; 0 if there was none
	Failures     int       // how many in a row
	NextTry      time.Time

	// Cause says in a few words how the last fetch failed, or why an answer
	// is no text where its status does not tell.
	Cause string
}

// A Version is an answer that an origin gave, be it a robots.txt or a status
// without one, and when.
type Version struct {
	SHA256    string // of Body in hex; empty if the answer was not 2xx
	Status    int
	FirstSeen time.Time
	LastSeen  time.Time
	Body      []byte
}

// A Store keeps records, and the versions that they were. It is safe for
// concurrent use. Records handed in and out are shared: nobody changes a Body.
type Store interface {
	// Get returns the record of an origin; false if there is none.
	Get(ctx context.Context, origin string) (Record, bool, error)
	// Put keeps records, each in place of its origin's last one, but for a store of
	// several processes not in place of one with a later answer, which another has
	// got meanwhile. An answer from the future is no later one. After an error some
	// of the records may have been kept.
	Put(ctx context.Context, recs ...Record) error
	// List returns up to limit records of the origins after the one given that have
	// part in them, in their order and without their texts.
	List(ctx context.Context, after, part string, limit int) ([]Record, error)
	// Forget drops an origin's record, as if it had never been asked. Its
	// versions stay.
	Forget(ctx context.Context, origin string) error
	// Versions returns the distinct answers of an origin with their texts, the
	// one seen last in front: as many as have up to maxHistory octets of text,
	// but one at least. A store that does not last knows the last one alone.
	Versions(ctx context.Context, origin string) ([]Version, error)
	Close() error
}

// maxHistory bounds what Versions reads: an origin may serve another text each
// time that it is asked.
const maxHistory = 64 << 20

// maxVersions is how many versions of one origin are kept. The oldest go first.
const maxVersions = 1000

// answer is the version that a record's last answer is; false if there has
// been none.
func (r Record) answer() (Version, bool) {
	return Version{
		SHA256: r.SHA256, Status: r.Status, FirstSeen: r.FetchedAt, LastSeen: r.FetchedAt, Body: r.Body,
	}, r.Status != 0
}
