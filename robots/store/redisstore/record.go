package redisstore

import (
	"strconv"
	"time"

	"robotsproxy/robots/store"
	"robotsproxy/robots/store/encoding"
)

// The keys, after the prefix that [redisclient.Client.Prefix] gives an origin. An origin stands for its robots.txt; another file has its URL in the place of the
// origin. A text is kept once, however many origins serve it, until the last version with it
// has been dropped. When a record has expired, or a Redis short of memory has dropped it, its
// origin stays listed until a later Put comes across it.
const (
	policyKey   = "policy:"   // + origin: a hash, the record without its text
	textKey     = "body:"     // + SHA-256: a hash, the text in gzip and how many versions have it
	versionsKey = "versions:" // + origin: "STATUS SHA256" by when it was last seen
	firstKey    = "first:"    // + origin: a hash, when each of those was first seen
	originsKey  = "origins"   // all origins, by name
)

// The fields of a record. Times are Unix milliseconds, 0 for none.
var recordFields = []string{
	"fetched_at", "status", "sha256", "expires_at",
	"failed_since", "failed_status", "failures", "next_try", "cause", "user_agent", "cdn",
}

func encodeRecord(rec store.Record) []any {
	return []any{
		"fetched_at", encoding.Milliseconds(rec.FetchedAt), "status", rec.Status, "sha256", rec.SHA256, "expires_at", encoding.Milliseconds(rec.ExpiresAt),
		"failed_since", encoding.Milliseconds(rec.FailedSince), "failed_status", rec.FailedStatus, "failures", rec.Failures,
		"next_try", encoding.Milliseconds(rec.NextTry), "cause", rec.Cause, "user_agent", rec.UserAgent, "cdn", rec.CDN,
	}
}

// decodeRecord reads the values of recordFields. It returns false if there are none.
func decodeRecord(origin string, values []any) (store.Record, bool) {
	text := func(i int) string { s, _ := values[i].(string); return s }
	number := func(i int) int { n, _ := strconv.Atoi(text(i)); return n }
	when := func(i int) time.Time { return parseTime(text(i)) }
	if len(values) < len(recordFields) || text(0) == "" {
		return store.Record{}, false
	}
	return store.Record{
		Origin: origin, FetchedAt: when(0), Status: number(1), SHA256: text(2), ExpiresAt: when(3),
		FailedSince: when(4), FailedStatus: number(5), Failures: number(6), NextTry: when(7), Cause: text(8),
		UserAgent: text(9), CDN: text(10),
	}, true
}

// parseTime reads what encoding.Milliseconds has written.
func parseTime(text string) time.Time {
	n, _ := strconv.ParseInt(text, 10, 64)
	return encoding.Time(n)
}
