package local

import (
	"hash/maphash"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// Starts counts the requests that have started, by the hour. Its zero value is empty.
//
// A window is the present hour and the 24 before it, so that no 24 hours have more starts than
// the limit, wherever they begin. What started in an hour counts until the end of that hour a
// day later.
type Starts struct {
	seed  maphash.Seed
	hours [windowHours]hourly
	size  int // of all hours
}

// hourly has the starts of one hour. Sites are known by their hash, to take little memory.
type hourly struct {
	number int64 // since 1970
	starts map[uint64]int32
}

const (
	windowHours = fleet.WindowHours
	// maxStarts bounds the counts of all hours together: about 100 MB. When there are
	// more, the oldest hour is forgotten.
	maxStarts = 3 << 20
)

// Count counts a request that starts now, if fewer than limit have started in the window.
// Otherwise it returns when the first of them will no longer count.
func (s *Starts) Count(site fleet.Site, now time.Time, limit int) (again time.Time, counted bool) {
	hour := now.Unix() / secondsPerHour
	if s.seed == (maphash.Seed{}) {
		s.seed = maphash.MakeSeed()
	}
	sum := maphash.Comparable(s.seed, site)
	total, oldest := 0, hour
	for i := range s.hours {
		h := &s.hours[i]
		if h.number <= hour-windowHours {
			s.forget(h)
		} else if n := h.starts[sum]; n > 0 {
			total += int(n)
			oldest = min(oldest, h.number)
		}
	}
	if total >= limit {
		return time.Unix((oldest+windowHours)*secondsPerHour, 0), false
	}
	s.add(sum, hour)
	return time.Time{}, true
}

const secondsPerHour = 60 * 60

func (s *Starts) add(sum uint64, hour int64) {
	h := &s.hours[hour%windowHours]
	if h.starts == nil {
		*h = hourly{hour, map[uint64]int32{}}
	}
	before := len(h.starts)
	h.starts[sum]++
	s.size += len(h.starts) - before
	if s.size <= maxStarts {
		return
	}
	oldest := h
	for i := range s.hours {
		if other := &s.hours[i]; len(other.starts) > 0 && other.number < oldest.number {
			oldest = other
		}
	}
	s.forget(oldest)
}

func (s *Starts) forget(h *hourly) {
	s.size -= len(h.starts)
	*h = hourly{}
}
