package pace

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long a response asks to wait (RFC 9110 10.2.3), at most a day; false
// if it does not ask. A date counts from the response's own Date, if there is one, since
// the origin's clock may be wrong.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil { // too large
			return maxHold, true
		}
		return min(time.Duration(seconds)*time.Second, maxHold), true
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, min(until.Sub(now), maxHold)), true
}

// maxHold bounds what one response may ask for. The next one may ask again.
const maxHold = 24 * time.Hour
