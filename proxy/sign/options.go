package sign

import (
	"errors"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/keyerr"
	"robotsproxy/robots"
)

// The bounds of Options.Lifetime. A request that takes seconds to arrive must not be expired
// then: its signature is dated back. The draft recommends a day at most (section 5.2).
const (
	minLifetime = 2 * clockSkew
	maxLifetime = 24 * time.Hour
)

// coverable are the components that Options.Cover may name.
var coverable = []string{"@authority", "@method", "@path"}

// Options say what a [Signer] writes. They are a part of the section "sign" of an identity.
type Options struct {
	// Agent is the https origin of the directory that has the keys. It is sent in its
	// normal form.
	Agent string `yaml:"agent"`
	// Cover names what a signature covers besides Signature-Agent, in this order:
	// "@authority", which must be there, "@method" and "@path".
	Cover []string `yaml:"cover"`
	// Lifetime is how long after its creation a signature expires: from 10 s to 24 h. Both
	// times are sent in whole seconds.
	Lifetime time.Duration `yaml:"lifetime"`
}

// Defaults returns the options of an identity that signs and sets nothing else. They lack the
// agent.
func Defaults() Options {
	return Options{Cover: slices.Clone(coverable), Lifetime: time.Minute}
}

// Validate joins all that is wrong with o, each fault a [keyerr.Error].
func (o Options) Validate() error {
	_, err := o.agent()
	errs := []error{err}
	for i, name := range o.Cover {
		switch {
		case !slices.Contains(coverable, name):
			errs = append(errs, keyerr.New("cover", "%q is none of %s", name, strings.Join(coverable, ", ")))
		case slices.Contains(o.Cover[:i], name): // RFC 9421 section 2
			errs = append(errs, keyerr.New("cover", "%s stands there twice", name))
		}
	}
	if !slices.Contains(o.Cover, "@authority") {
		errs = append(errs, keyerr.New("cover", "@authority is missing; without it, one site could send your signature to another"))
	}
	if o.Lifetime < minLifetime || o.Lifetime > maxLifetime {
		errs = append(errs, keyerr.New("lifetime", "%v is not between %v and %v", o.Lifetime, minLifetime, maxLifetime))
	}
	return errors.Join(errs...)
}

// agent is the origin that Agent names.
func (o Options) agent() (robots.Origin, error) {
	origin, err := robots.ParseOrigin(o.Agent)
	if err != nil {
		return robots.Origin{}, keyerr.New("agent", "%w; write the origin of the directory, such as https://bot.example.org", err)
	}
	if origin.Scheme != "https" {
		return robots.Origin{}, keyerr.New("agent", "%s is not an https origin; verifiers fetch the directory by https alone", origin)
	}
	return origin, nil
}
