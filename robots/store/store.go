// Package store says what a store of policies is: a [Store] keeps one [Record] for each
// origin, and the versions of its robots.txt; and the same of other files by their URLs.
// [Options] choose a store. A [Memory] lasts no
// longer than its process. The packages below have the stores that last: sqlitestore for
// the processes of one machine, redisstore for a fleet.
package store

import (
	"context"
	"time"
)

// A Record is all that is known of an origin's robots.txt or of another file. Times are wall
// time in whole milliseconds. The zero time stands for none.
type Record struct {
	// Origin is the origin as robots.Origin writes it or, of another file, its whole URL: no
	// origin has a slash after its host, so neither is taken for the other. What is said of
	// origins below holds for the URLs of files too, but List leaves them out.
	Origin string

	// The last answer: 2xx, 4xx, redirects that lead nowhere, or a status to which the
	// operator gave a meaning.
	Status    int    // its HTTP status; 0 if there has been no answer
	Body      []byte // its text, if it was 2xx
	SHA256    string // of Body in hex; empty if the answer was not 2xx
	UserAgent string // with which Body was fetched; empty for the program's own
	FetchedAt time.Time
	ExpiresAt time.Time

	// The failures since that answer.
	FailedSince  time.Time // the first of them
	FailedStatus int       // HTTP status of the last one; 0 if there was none
	Failures     int       // how many in a row
	NextTry      time.Time

	CDN string // the network by which the origin last answered, as fetch.Result has it; empty for none

	// Cause says in a few words how the last fetch failed, or why an answer has no text
	// where its status does not tell.
	Cause string
}

// A Version is an answer that an origin gave, a robots.txt or a status without one, and
// when it gave it.
type Version struct {
	SHA256    string // of the text in hex; empty if the answer was not 2xx
	Status    int
	FirstSeen time.Time
	LastSeen  time.Time
}

// A Change is the first time that an origin gave an answer other than those before.
type Change struct {
	Origin string
	At     time.Time
	Status int
	SHA256 string // of the text in hex; empty if the answer was not 2xx
}

// A Store keeps records and the versions that they have been. It is safe for concurrent
// use. The records that it takes and returns are shared: nobody may change a Body.
type Store interface {
	// Get returns the record of an origin. ok is false if there is none.
	Get(ctx context.Context, origin string) (rec Record, ok bool, err error)
	// Put keeps records, each in place of its origin's last one. A store that several
	// processes share keeps a last one that has a later answer: another process has got
	// that meanwhile. An answer from the future does not count as later. After an error
	// some of the records may have been kept.
	Put(ctx context.Context, recs ...Record) error
	// List returns up to limit records of robots.txt, without their texts: of the origins
	// that come after the one given and contain part, in order.
	List(ctx context.Context, after, part string, limit int) ([]Record, error)
	// Forget drops an origin's record, as if the origin had never been asked. Its
	// versions stay.
	Forget(ctx context.Context, origin string) error
	// Versions returns the distinct answers of an origin, the one seen last first. A store
	// that does not last knows only the last answer.
	Versions(ctx context.Context, origin string) ([]Version, error)
	// Text returns the text of a version of an origin, by its SHA256. ok is false if the store
	// does not have it, or no longer. An origin may serve a long text each time another, so
	// callers should not hold those of all versions at once.
	Text(ctx context.Context, origin, sha256 string) (text []byte, ok bool, err error)
	// Close releases what the store holds. The store must not be used afterwards.
	Close() error
}

// MaxVersions is how many versions of one origin a store keeps. The oldest go first.
const MaxVersions = 1000

// Answer returns the version that r's last answer is, seen once. ok is false if there has
// been no answer.
func (r Record) Answer() (v Version, ok bool) {
	return Version{
		SHA256: r.SHA256, Status: r.Status, FirstSeen: r.FetchedAt, LastSeen: r.FetchedAt,
	}, r.Status != 0
}
