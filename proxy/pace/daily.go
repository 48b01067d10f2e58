package pace

import (
	"hash/maphash"
	"time"

	"robotsproxy/proxy/pace/fleet"
)

// daily counts the requests that have started, by the hour. Its zero value is empty.
//
// A window is the present hour and the 24 before it, so that no 24 hours have more starts than
// the limit, wherever they begin. What started in an hour counts until the end of that hour a
// day later.
type daily struct {
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
	// maxDailySize bounds the counts of all hours together: about 100 MB. When there are
	// more, the oldest hour is forgotten.
	maxDailySize = 3 << 20
)

// start counts a request that starts now, if fewer than limit have started in the window.
// Otherwise it returns when the first of them will no longer count.
func (d *daily) start(key fleet.Site, now time.Time, limit int) (again time.Time, counted bool) {
	hour := now.Unix() / secondsPerHour
	if d.seed == (maphash.Seed{}) {
		d.seed = maphash.MakeSeed()
	}
	site := maphash.Comparable(d.seed, key)
	total, oldest := 0, hour
	for i := range d.hours {
		h := &d.hours[i]
		if h.number <= hour-windowHours {
			d.forget(h)
		} else if n := h.starts[site]; n > 0 {
			total += int(n)
			oldest = min(oldest, h.number)
		}
	}
	if total >= limit {
		return time.Unix((oldest+windowHours)*secondsPerHour, 0), false
	}
	d.add(site, hour)
	return time.Time{}, true
}

const secondsPerHour = 60 * 60

func (d *daily) add(site uint64, hour int64) {
	h := &d.hours[hour%windowHours]
	if h.starts == nil {
		*h = hourly{hour, map[uint64]int32{}}
	}
	before := len(h.starts)
	h.starts[site]++
	d.size += len(h.starts) - before
	if d.size <= maxDailySize {
		return
	}
	oldest := h
	for i := range d.hours {
		if other := &d.hours[i]; len(other.starts) > 0 && other.number < oldest.number {
			oldest = other
		}
	}
	d.forget(oldest)
}

func (d *daily) forget(h *hourly) {
	d.size -= len(h.starts)
	*h = hourly{}
}
