package robots

import (
	"strings"
	"time"
)

// A pace states the time between the starts of two requests. The zero value states
// nothing.
type pace struct {
	delay   time.Duration // of the first Crawl-delay
	delayed bool          // there is one
	rates   []rate
}

// readPace reads the value of a Crawl-delay or Request-rate line.
func readPace(field field, value string) (p pace) {
	if field == crawlDelay {
		var n float64
		n, p.delayed = parseNumber(value)
		p.delay = seconds(n)
	} else if r, ok := parseRate(value); ok {
		p.rates = []rate{r}
	}
	return p
}

// add adds what a later line states: the first delay counts, and the first rate that
// holds.
func (p *pace) add(later pace) {
	if !p.delayed {
		p.delay, p.delayed = later.delay, later.delayed
	}
	p.rates = addRates(p.rates, later.rates...)
}

// at returns the delay at a time of day; false if none is stated.
func (p *pace) at(day time.Duration) (time.Duration, bool) {
	if p.delayed {
		return p.delay, true
	}
	for _, r := range p.rates {
		if r.holds(day) {
			return r.delay, true
		}
	}
	return 0, false
}

// stated reports whether a delay is stated for any time of day.
func (p *pace) stated() bool { return p.delayed || len(p.rates) > 0 }

// A rate is the value of a Request-rate line: a number of requests in a length of time,
// perhaps only between two times of day. No standard has it. The syntax is that of the
// extended standard proposed in 1996: "1/10s", "30/1m 0900-1659".
type rate struct {
	delay    time.Duration // between the starts of two requests
	from, to int16         // minutes of the day in UTC, both included; to may be before from
}

const minutesPerDay = 24 * 60

// always reports whether the rate holds all day.
func (r rate) always() bool { return r.from == 0 && r.to == minutesPerDay-1 }

// holds reports whether the rate holds at a time of day, given as the time since midnight.
func (r rate) holds(at time.Duration) bool {
	minute := int16(at / time.Minute % minutesPerDay)
	if r.from > r.to { // across midnight
		return minute >= r.from || minute <= r.to
	}
	return r.from <= minute && minute <= r.to
}

// maxRates bounds how many rates of a group count: one for each hour.
const maxRates = 24

// addRates appends those of more that can count. It does not write to the array of rates,
// which groups share.
func addRates(rates []rate, more ...rate) []rate {
	switch n := len(rates); {
	case n == 0:
		return more
	case n == maxRates || rates[n-1].always():
		return rates
	default:
		more = more[:min(len(more), maxRates-n)]
		return append(rates[:n:n], more...)
	}
}

// parseRate reads REQUESTS/TIME, and the hours after it if there are any. The time is in
// seconds or has a unit: s, m or h. Both numbers must be more than zero.
func parseRate(s string) (rate, bool) {
	requests, rest, _ := strings.Cut(s, "/")
	rest = trimSpace(rest)
	end := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
	unit, hours := cutUnit(trimSpace(rest[end:]))
	n, ok := parseNumber(trimSpace(requests))
	length, ok2 := parseNumber(rest[:end])
	if !ok || !ok2 || n == 0 || length == 0 {
		return rate{}, false
	}
	r := rate{delay: seconds(length * unit / n), to: minutesPerDay - 1}
	if hours != "" {
		from, to, _ := strings.Cut(hours, "-")
		r.from, ok = parseMinute(from)
		r.to, ok2 = parseMinute(to)
	}
	return r, ok && ok2
}

// cutUnit cuts a unit of time from the beginning of s and returns it in seconds. Without one
// it is a second.
func cutUnit(s string) (unit float64, rest string) {
	unit = 1
	switch {
	case hasPrefixFold(s, "s"):
	case hasPrefixFold(s, "m"):
		unit = 60
	case hasPrefixFold(s, "h"):
		unit = 60 * 60
	default:
		return unit, s
	}
	return unit, trimSpace(s[1:])
}

// parseMinute reads a time of day as 0930 or 09:30. 2400 is the day's last minute.
func parseMinute(s string) (int16, bool) {
	s = strings.Replace(trimSpace(s), ":", "", 1)
	if len(s) != 4 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	digit := func(i int) int16 { return int16(s[i] - '0') }
	hour, minute := digit(0)*10+digit(1), digit(2)*10+digit(3)
	if hour > 24 || minute > 59 || hour == 24 && minute > 0 {
		return 0, false
	}
	return min(hour*60+minute, minutesPerDay-1), true
}
