package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"robotsproxy/robots/store"
)

// TextRecord returns the record of a 2xx answer at a time.
func TextRecord(origin, text string, at time.Time) store.Record {
	sum := sha256.Sum256([]byte(text))
	return store.Record{
		Origin: origin, Status: 200, Body: []byte(text), SHA256: hex.EncodeToString(sum[:]),
		FetchedAt: at, ExpiresAt: at.Add(24 * time.Hour),
	}
}

// FailingRecord returns rec with failures since a time.
func FailingRecord(rec store.Record, since time.Time) store.Record {
	rec.FailedSince, rec.FailedStatus, rec.Failures = since, 503, 2
	rec.NextTry, rec.Cause = since.Add(time.Minute+time.Millisecond), "503 Service Unavailable"
	return rec
}

// VersionOf returns the version that the record's answer is, seen from first until its
// fetch.
func VersionOf(rec store.Record, first time.Time) store.Version {
	return store.Version{SHA256: rec.SHA256, Status: rec.Status, FirstSeen: first, LastSeen: rec.FetchedAt}
}

// Put keeps records, one after the other.
func Put(t testing.TB, s store.Store, recs ...store.Record) {
	t.Helper()
	for _, rec := range recs {
		if err := s.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
}

// Expect checks that a store returns a record as it was put.
func Expect(t testing.TB, s store.Store, want store.Record) {
	t.Helper()
	got, ok, err := s.Get(t.Context(), want.Origin)
	if err != nil || !ok {
		t.Fatalf("%s: found %v, %v", want.Origin, ok, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

// ExpectVersions checks that a store returns these versions of an origin, in this order, and has
// their texts.
func ExpectVersions(t testing.TB, s store.Store, origin string, want ...store.Version) {
	t.Helper()
	got, err := s.Versions(t.Context(), origin)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got %+v\nwant %+v", origin, got, want)
	}
	for _, v := range want {
		text, ok, err := s.Text(t.Context(), origin, v.SHA256)
		if sum := sha256.Sum256(text); err != nil || ok != (v.SHA256 != "") || ok && hex.EncodeToString(sum[:]) != v.SHA256 {
			t.Fatalf("%s: the text %s is %q, found %v, %v", origin, v.SHA256, text, ok, err)
		}
	}
}
