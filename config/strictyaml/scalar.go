package strictyaml

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A scalar is a single value.
type scalar struct {
	text   string
	number bool // it has no quotes, and YAML reads it as a number or a bool
}

// setScalar parses s by the type of v and sets v to the value. On an error v is unchanged.
func setScalar(v reflect.Value, option string, s scalar) error {
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		if option == "zero" && isZero(s.text) {
			*target = 0
			return nil
		}
		return set(target, s.text, ParseDuration)
	case *netip.Prefix:
		return set(target, s.text, parsePrefix)
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(s.text))
	case *int64:
		if option == "size" {
			return set(target, s.text, parseSize)
		}
	}
	switch {
	case v.Kind() == reflect.String && s.number:
		return fmt.Errorf("%s is not text; put it in quotes if it is meant as text", s.text)
	case v.Kind() == reflect.String:
		v.SetString(s.text)
	case v.Kind() == reflect.Bool:
		value, known := booleans[strings.ToLower(s.text)]
		if !known {
			return fmt.Errorf("%q is neither true nor false; write one of them", s.text)
		}
		v.SetBool(value)
	case v.CanInt():
		n, err := strconv.ParseInt(s.text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number, or too large; write for example 10", s.text)
		}
		v.SetInt(n)
	default:
		panic(fmt.Sprintf("strictyaml: no key can be a %s", v.Type()))
	}
	return nil
}

// set parses text into target. On an error target is unchanged.
func set[T any](target *T, text string, parse func(string) (T, error)) error {
	value, err := parse(text)
	if err == nil {
		*target = value
	}
	return err
}

// expand replaces each ${NAME} by the environment variable NAME.
func expand(s string) (string, error) {
	var out strings.Builder
	var errs []string
	for {
		before, after, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			break
		}
		name, rest, closed := strings.Cut(after, "}")
		value, isSet := os.LookupEnv(name)
		if !closed {
			errs = append(errs, "${ has no closing }")
		} else if !isSet {
			errs = append(errs, fmt.Sprintf("the environment variable %s is not set", name))
		}
		out.WriteString(value)
		s = rest
	}
	if errs != nil {
		return "", errors.New(strings.Join(errs, ", and "))
	}
	return out.String(), nil
}

// isZero reports whether text is a duration of zero, which only some keys may have.
func isZero(text string) bool {
	d, err := time.ParseDuration(text)
	return err == nil && d == 0
}

// ParseDuration reads a duration in Go's format, which may begin with days, as in 1d12h. It
// must be more than zero.
func ParseDuration(text string) (time.Duration, error) {
	var days, rest time.Duration
	var err error
	before, after, found := strings.Cut(text, "d")
	if found {
		days, err = time.ParseDuration(before + "h")
	} else {
		after = text
	}
	if err == nil && (after != "" || !found) {
		rest, err = time.ParseDuration(after)
	}
	switch {
	case err != nil || strings.ContainsAny(before, "hmsnuµμ") && found:
		return 0, fmt.Errorf("%q is not a duration, or too long; write a number and a unit, for example 500ms, 30s, 5m, 1h30m or 7d", text)
	case days < 0 || rest < 0 || days+rest == 0:
		return 0, fmt.Errorf("%q is not more than zero; write for example 30s", text)
	case days > (math.MaxInt64-rest)/24:
		return 0, fmt.Errorf("%q is too long", text)
	}
	return days*24 + rest, nil
}

// booleans are the words of YAML 1.1, in lower case. YAML 1.2 has only true and false, but
// who writes on means true.
var booleans = map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}

// sizeUnits are the units of sizes, in lower case, in bytes.
var sizeUnits = map[string]int64{"": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

// parseSize reads a whole number of bytes or of one of the units, in upper or lower case.
func parseSize(text string) (int64, error) {
	unit := strings.TrimLeft(text, "0123456789")
	digits := strings.TrimSuffix(text, unit)
	unit = strings.ToLower(strings.TrimSpace(unit))
	factor, known := sizeUnits[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err == nil && !known && strings.Contains("kmg", unit[:1]):
		return 0, fmt.Errorf("%q is not a size; did you mean %d%siB?", text, n, strings.ToUpper(unit[:1]))
	case err != nil || !known:
		return 0, fmt.Errorf("%q is not a size; write a number of bytes, or one with a unit (KiB, MiB, GiB, KB, MB, GB), for example 64MiB", text)
	case n > math.MaxInt64/factor:
		return 0, fmt.Errorf("%q is too large", text)
	}
	return n * factor, nil
}

// parsePrefix reads a network in CIDR notation. A single address is a network of its own.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fmt.Errorf("%q is not a network; write for example 10.0.0.0/8 or ::1/128", text)
	}
	return prefix.Masked(), nil
}
