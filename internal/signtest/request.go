package signtest

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// A Signature is what a request's signature says of itself.
type Signature struct {
	KeyID   string
	Form    string   // of Signature-Agent: "dictionary" or "string"
	Covered []string // the names of the components, in their order
}

// Request verifies the one signature of a request as its server got it. It must be by one of
// the keys, which are named by their thumbprints, in the name of this agent, and hold at this
// time. The signature base is made from the request line and the fields as they came.
func Request(r *http.Request, agent string, keys map[string]ed25519.PublicKey, now time.Time) (s Signature, err error) {
	inputs, err := httpsfv.UnmarshalDictionary(r.Header["Signature-Input"])
	if err != nil || len(inputs.Names()) != 1 {
		return s, fmt.Errorf("Signature-Input %q is not of one signature (%w)", r.Header["Signature-Input"], err)
	}
	label := inputs.Names()[0]
	member, _ := inputs.Get(label)
	list, isList := member.(httpsfv.InnerList)
	if !isList {
		return s, errors.New("Signature-Input has no list of components")
	}
	var base strings.Builder
	for _, item := range list.Items {
		name, _ := item.Value.(string)
		var value string
		switch name {
		case "@method":
			value = r.Method
		case "@authority":
			value = r.Host
		case "@path":
			value, _, _ = strings.Cut(r.RequestURI, "?")
		case "signature-agent":
			if s.Form, value, err = signatureAgent(r.Header, item); err != nil || value != `"`+agent+`"` {
				return s, fmt.Errorf("Signature-Agent %q is not %s (%w)", r.Header["Signature-Agent"], agent, err)
			}
		default:
			return s, fmt.Errorf("%q is covered", name)
		}
		s.Covered = append(s.Covered, name)
		id, err := httpsfv.Marshal(item)
		if err != nil {
			return s, err
		}
		base.WriteString(id + ": " + value + "\n")
	}
	params, err := httpsfv.Marshal(list)
	if err != nil {
		return s, err
	}
	base.WriteString(`"@signature-params": ` + params)

	s.KeyID, _ = param[string](list, "keyid")
	created, _ := param[int64](list, "created")
	expires, _ := param[int64](list, "expires")
	if created >= now.Unix() || expires <= now.Unix() {
		return s, fmt.Errorf("the signature holds from %d to %d, and not at %d", created, expires, now.Unix())
	}
	if tag, _ := param[string](list, "tag"); tag != "web-bot-auth" || s.Form == "" {
		return s, fmt.Errorf("the tag is %q, and Signature-Agent is covered as a %q", tag, s.Form)
	}
	signatures, err := httpsfv.UnmarshalDictionary(r.Header["Signature"])
	if err != nil {
		return s, err
	}
	member, _ = signatures.Get(label)
	item, _ := member.(httpsfv.Item)
	octets, _ := item.Value.([]byte)
	if key := keys[s.KeyID]; key == nil || !ed25519.Verify(key, []byte(base.String()), octets) {
		return s, fmt.Errorf("%q does not sign this:\n%s", s.KeyID, base.String())
	}
	return s, nil
}

// signatureAgent returns Signature-Agent in the form in which a component covers it, and the
// value that is covered.
func signatureAgent(h http.Header, component httpsfv.Item) (form, value string, err error) {
	key, keyed := component.Params.Get("key")
	if !keyed {
		item, err := httpsfv.UnmarshalItem(h["Signature-Agent"])
		if err != nil {
			return "", "", err
		}
		value, err = httpsfv.Marshal(item)
		return "string", value, err
	}
	agents, err := httpsfv.UnmarshalDictionary(h["Signature-Agent"])
	if err != nil {
		return "", "", err
	}
	member, _ := agents.Get(key.(string))
	item, _ := member.(httpsfv.Item)
	value, err = httpsfv.Marshal(item)
	return "dictionary", value, err
}
