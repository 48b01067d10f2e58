// Package sign signs what a bot sends and publishes the keys for it, so that a site can tell
// whose bot asks: HTTP Message Signatures (RFC 9421) in the profile of Web Bot Auth, with
// Ed25519. What the comments call the draft is draft-ietf-webbotauth-httpsig-protocol-01.
//
// [CreateKey] makes a [Key] in a file, from which [ReadKey] reads it. A [Signer] signs
// requests with one key. [JWKSet] and [SignDirectory] make the directory in which verifiers
// look the keys up.
//
// The package reads and makes key files and does no other I/O. Its callers give it the clock,
// and the randomness of signatures.
package sign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"robotsproxy/robots"
)

// A Form says how Signature-Agent is written and covered.
type Form int

const (
	// Dictionary is the form of the draft (section 5.2.1): a structured dictionary of one
	// member, whose key is the signature's label and which the signature covers by that key.
	Dictionary Form = iota
	// String is the form of older drafts, which some verifiers still want: a structured
	// string, which the signature covers as a whole field.
	String
)

// String is the form's word in settings, logs and metrics.
func (f Form) String() string {
	if f == String {
		return "string"
	}
	return "dictionary"
}

const (
	// label names our signature in Signature and Signature-Input, and our member in a
	// Signature-Agent dictionary.
	label = "sig1"
	// clockSkew is how far a request's signature is dated back. Verifiers refuse one from
	// the future, and their clocks differ from ours.
	clockSkew = 5 * time.Second
	// nonceSize is the number of random octets that tell two signatures apart (RFC 9421
	// section 7.2.2). Some verifiers want just so many.
	nonceSize = 64
)

// A Signer signs requests with one key. It is safe for concurrent use if its clock and
// randomness are.
type Signer struct {
	key      *Key
	cover    []string
	lifetime time.Duration
	now      func() time.Time
	random   io.Reader

	label string
	agent [2]agent // by Form
}

// agent is Signature-Agent in one form.
type agent struct {
	field   string    // the field's value
	covered component // what a signature covers of it
}

// NewSigner returns a signer that tells the time by now and takes nonces from random, which is
// [crypto/rand.Reader] outside tests. The error joins all that is wrong with opts, as
// [Options.Validate] does.
func NewSigner(key *Key, opts Options, now func() time.Time, random io.Reader) (*Signer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Signer{key: key, cover: slices.Clone(opts.Cover), lifetime: opts.Lifetime, now: now, random: random}
	origin, _ := opts.agent() // it is valid
	s.name(label, label, origin)
	return s, nil
}

// name sets the label of signatures, the key of the member in a Signature-Agent dictionary,
// and the agent itself.
func (s *Signer) name(label, member string, origin robots.Origin) {
	s.label = label
	value := `"` + origin.String() + `"` // no origin needs escapes
	s.agent[Dictionary] = agent{member + "=" + value, component{`"signature-agent";key="` + member + `"`, value}}
	s.agent[String] = agent{value, component{`"signature-agent"`, value}}
}

// Key is the key that signs.
func (s *Signer) Key() *Key { return s.key }

// Fields are the values of the header fields that sign one request.
type Fields struct {
	SignatureAgent string // where the keys are (section 5.2.1 of the draft)
	SignatureInput string // what the signature covers, and its parameters (RFC 9421 section 4.1)
	Signature      string // RFC 9421 section 4.2
}

// Set puts the fields into h, in place of those that are there.
func (f *Fields) Set(h http.Header) {
	h.Set("Signature-Agent", f.SignatureAgent)
	h.Set("Signature-Input", f.SignatureInput)
	h.Set("Signature", f.Signature)
}

// Sign signs one request, which is sent with this method to this target (section 5.2 of the
// draft). The method and the path are those on the wire, octet by octet. Of the target, the
// signature covers the authority and the path at most, never the query. Each call makes a
// fresh signature, with a nonce of its own. It is dated 5 s back, and expires a lifetime after
// that date.
//
// It returns an error, and no fields, if a covered value is none that a signature can cover,
// or if there is no randomness. Sending the request unsigned is safe then.
func (s *Signer) Sign(method string, target robots.Target, form Form) (Fields, error) {
	var room [4]component
	covered := room[:0]
	for _, name := range s.cover {
		value, err := derive(name, method, target)
		if err != nil {
			return Fields{}, fmt.Errorf("sign a request: %w", err)
		}
		covered = append(covered, component{`"` + name + `"`, value})
	}
	covered = append(covered, s.agent[form].covered)

	var nonce [nonceSize]byte
	if _, err := io.ReadFull(s.random, nonce[:]); err != nil {
		return Fields{}, fmt.Errorf("sign a request: read a nonce: %w", err)
	}
	created := s.now().Add(-clockSkew)
	params := make([]byte, 0, 256)
	params = append(params, ";created="...)
	params = strconv.AppendInt(params, created.Unix(), 10)
	params = append(params, `;keyid="`+s.key.id+`";alg="ed25519";expires=`...)
	params = strconv.AppendInt(params, created.Add(s.lifetime).Unix(), 10)
	params = append(params, `;nonce="`...)
	params = base64.StdEncoding.AppendEncode(params, nonce[:])
	params = append(params, `";tag="web-bot-auth"`...)

	fields := Fields{SignatureAgent: s.agent[form].field}
	fields.SignatureInput, fields.Signature = s.key.sign(s.label, covered, string(params))
	return fields, nil
}

// derive returns the value of a derived component (RFC 9421 section 2.2).
func derive(name, method string, target robots.Target) (value string, err error) {
	switch name {
	case "@method": // section 2.2.1; methods have case
		value = method
	case "@authority": // section 2.2.3; in lower case and without a default port, as an origin has it
		if target.Origin.Host != "" {
			value = target.Origin.Authority()
		}
	case "@path": // section 2.2.6; its escapes stay
		value, _, _ = strings.Cut(target.Path, "?")
		if value == "" || value == "*" { // the * of OPTIONS stands for an empty path (RFC 9110 section 7.1)
			value = "/"
		}
		if value[0] != '/' {
			return "", errors.New("the path does not begin with a /")
		}
	}
	if !isVisible(value) {
		return "", fmt.Errorf("the value of %s is empty, or not of visible ASCII characters alone", name)
	}
	return value, nil
}

// isVisible reports whether s is not empty and of visible ASCII characters alone. A signature
// base is ASCII, and a line feed in a value would forge another line of it (RFC 9421 section
// 2.5).
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7F {
			return false
		}
	}
	return s != ""
}

// component is a component of a message that a signature covers.
type component struct {
	id    string // its identifier with its parameters, serialized: `"@authority";req`
	value string
}

// sign signs the components with the parameters, and returns the members of Signature-Input
// and Signature (RFC 9421 section 3.1). The parameters are serialized, each after its ";".
func (k *Key) sign(label string, covered []component, params string) (input, signature string) {
	// The signature base has a line for each component, and one for the parameters at its
	// end, without a line feed (RFC 9421 section 2.5).
	base := make([]byte, 0, 1024)
	list := append(make([]byte, 0, 512), '(')
	for i, c := range covered {
		if i > 0 {
			list = append(list, ' ')
		}
		list = append(list, c.id...)
		base = append(base, c.id+": "+c.value+"\n"...)
	}
	list = append(list, ")"+params...)
	base = append(base, `"@signature-params": `...)
	base = append(base, list...)
	return label + "=" + string(list), label + "=:" + base64.StdEncoding.EncodeToString(k.signOctets(base)) + ":"
}
