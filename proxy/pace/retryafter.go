package pace

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is how long a response says to wait (RFC 9110 10.2.3), in seconds or
// until a date; false if it does not say so. A date counts from the response's own
// Date, if there is one: the origin's clock may be wrong.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil { // too large
			return longestHold, true
		}
		return min(time.Duration(seconds)*time.Second, longestHold), true
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, min(until.Sub(now), longestHold)), true
}

// longestHold bounds what an origin may ask for at once. One that wants more may
// say so again.
const longestHold = 24 * time.Hour
