package identity

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"robotsproxy/internal/enum"
	"robotsproxy/internal/keyerr"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots"
	"robotsproxy/robots/fetch"
)

// Signing is the section "sign" of an identity: whether and how its requests are signed. The
// zero value signs nothing.
type Signing struct {
	// Keys are files with Ed25519 keys, as [sign.ReadKey] reads them. The first one signs.
	// The directory publishes all of them. Without a key and an agent, nothing is signed.
	Keys []string `yaml:"keys,path"`
	// Options without a Cover or a Lifetime have those of [sign.Defaults].
	sign.Options `yaml:",inline"`
	Form         Form `yaml:"form"`
	// Forms are for single hosts. Of several globs that match, the longest one counts.
	Forms map[HostGlob]Form `yaml:"forms"`
	// HTTP also signs requests over plain http, which anyone on the way can read and replay.
	HTTP bool `yaml:"http"`
}

// DefaultSigning is the section of an identity that does not sign.
func DefaultSigning() Signing { return Signing{Options: sign.Defaults(), Form: AutoForm} }

// Form is how Signature-Agent is written. The zero value means [AutoForm].
type Form string

const (
	// AutoForm is StringForm where a CDN that verifies no other form serves the origin, else
	// DictionaryForm.
	AutoForm       Form = "auto"
	DictionaryForm Form = "dictionary" // see [sign.Dictionary]
	StringForm     Form = "string"     // see [sign.String]
)

// UnmarshalText reads one of the words above.
func (f *Form) UnmarshalText(text []byte) error {
	return enum.Unmarshal(f, text, AutoForm, DictionaryForm, StringForm)
}

// resolve returns the form for an origin that a CDN serves; "" for none that is known.
func (f Form) resolve(cdn string) sign.Form {
	if f == StringForm || (f == AutoForm || f == "") && cdn == fetch.Cloudflare {
		return sign.String
	}
	return sign.Dictionary
}

// Validate joins all that is wrong with s, each fault a [keyerr.Error]. It reads the keys.
func (s Signing) Validate() error {
	if len(s.Keys) == 0 && s.Agent == "" {
		return nil
	}
	_, err := s.load()
	return err
}

// load reads the keys. It returns nil if nothing is to be signed.
func (s Signing) load() (*signer, error) {
	if len(s.Keys) == 0 && s.Agent == "" {
		return nil, nil
	}
	defaults := sign.Defaults()
	s.Lifetime = cmp.Or(s.Lifetime, defaults.Lifetime)
	if len(s.Cover) == 0 {
		s.Cover = defaults.Cover
	}
	keys, err := readKeys(s.Keys)
	if err := errors.Join(err, s.Options.Validate()); err != nil {
		return nil, err
	}
	loaded := &signer{keys: keys, form: s.Form, http: s.HTTP}
	if loaded.Signer, err = sign.NewSigner(keys[0], s.Options, time.Now, rand.Reader); err != nil {
		return nil, err
	}
	if loaded.agent, err = robots.ParseOrigin(s.Agent); err != nil {
		return nil, err
	}
	for host, form := range s.Forms {
		loaded.forms = append(loaded.forms, formOfHosts{host, form})
	}
	slices.SortFunc(loaded.forms, func(a, b formOfHosts) int {
		return cmp.Or(cmp.Compare(len(b.host.text), len(a.host.text)), strings.Compare(a.host.text, b.host.text))
	})
	loaded.fetches = func(h http.Header, target robots.Target, cdn string) {
		loaded.sign(h, http.MethodGet, target, cdn) // a fetch that can't be signed is sent unsigned
	}
	return loaded, nil
}

// readKeys returns the keys in these files. The error joins all faults, each a [keyerr.Error].
func readKeys(paths []string) ([]*sign.Key, error) {
	if len(paths) == 0 {
		return nil, keyerr.New("keys", "there is no key to sign with; make one with robotsproxy keys new FILE, and name FILE here")
	}
	var errs []error
	keys := make([]*sign.Key, len(paths))
	first := map[string]int{} // by ID
	for i, path := range paths {
		var err error
		if keys[i], err = sign.ReadKey(path); err != nil {
			errs = append(errs, keyerr.New(keyerr.Item("keys", i), "%w%s", err, mendKeyFile(err, path)))
			continue
		}
		if at, again := first[keys[i].ID()]; again {
			errs = append(errs, keyerr.New(keyerr.Item("keys", i), "%s holds the same key as keys[%d]; remove one", path, at))
		} else {
			first[keys[i].ID()] = i
		}
	}
	return keys, errors.Join(errs...)
}

// mendKeyFile says what to do about an error of the file system.
func mendKeyFile(err error, path string) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "; make one with robotsproxy keys new " + path
	case errors.Is(err, fs.ErrPermission):
		return "; let the user of the proxy read it, and nobody else"
	}
	return ""
}

// A signer is what a Signing section describes, with its keys.
type signer struct {
	*sign.Signer // by the first key
	keys         []*sign.Key
	agent        robots.Origin
	form         Form
	forms        []formOfHosts // the longest glob first
	http         bool
	fetches      fetch.Signer
}

type formOfHosts struct {
	host HostGlob
	form Form
}

// formFor returns the form for an origin that a CDN serves; "" for none that is known.
func (s *signer) formFor(origin robots.Origin, cdn string) sign.Form {
	for _, f := range s.forms {
		if f.host.Match(origin.Host) {
			return f.form.resolve(cdn)
		}
	}
	return s.form.resolve(cdn)
}

// sign is [Identity.Sign].
func (s *signer) sign(h http.Header, method string, target robots.Target, cdn string) (Signature, error) {
	if target.Origin.Scheme != "https" && (target.Origin.Scheme != "http" || !s.http) {
		return Signature{}, nil
	}
	if _, signed := h["Signature-Input"]; signed {
		return Signature{}, errSigned
	}
	form := s.formFor(target.Origin, cdn)
	fields, err := s.Sign(method, target, form)
	if err != nil {
		return Signature{}, err
	}
	fields.Set(h)
	return Signature{s.Key().ID(), form}, nil
}

// Signs reports whether requests of the identity are signed.
func (id *Identity) Signs() bool { return len(id.Signing.Keys) > 0 }

// Keys are the keys that the directory at Agent publishes, of which the first one signs. They
// are there in a [Table] that is loaded. There is none if the identity does not sign.
func (id *Identity) Keys() []*sign.Key {
	if id.signer == nil {
		return nil
	}
	return id.signer.keys
}

// Agent is the https origin of the directory; the zero value where Keys has none.
func (id *Identity) Agent() robots.Origin {
	if id.signer == nil {
		return robots.Origin{}
	}
	return id.signer.agent
}

// A Signature says by which key a request is signed, and in which form. The zero value is none.
type Signature struct {
	KeyID string
	Form  sign.Form
}

// errSigned means that a request has a signature of its own, which must stay as it is.
var errSigned = errors.New("the request has a signature of its own")

// Sign signs a request with this header, which is sent with this method to this target. It
// replaces a Signature-Agent or a Signature that is there without a Signature-Input. cdn is
// the network that serves the target's origin; "" for none that is known.
//
// If it returns no Signature, the header is as it was, and the request is sent unsigned.
// Without an error, the identity does not sign such requests. The error says that the request
// has a signature of its own, which must stay as it is, or what of it can't be signed.
func (id *Identity) Sign(h http.Header, method string, target robots.Target, cdn string) (Signature, error) {
	if id.signer == nil {
		return Signature{}, nil
	}
	return id.signer.sign(h, method, target, cdn)
}

// FetchSigner signs the fetches of robots.txt files, as Sign does; nil if the identity does
// not sign.
func (id *Identity) FetchSigner() fetch.Signer {
	if id.signer == nil {
		return nil
	}
	return id.signer.fetches
}

// Load returns a copy of the table whose identities have their keys, which it reads.
func (t Table) Load() (Table, error) {
	t.Entries = slices.Clone(t.Entries)
	var errs []error
	for name, id := range t.All() {
		var err error
		if id.signer, err = id.Signing.load(); err != nil {
			errs = append(errs, fmt.Errorf("the section sign of the identity %s: %w", name, err))
		}
	}
	return t, errors.Join(errs...)
}
