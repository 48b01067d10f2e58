// Package signtest verifies key directories and signed requests as a verifier does that knows
// nothing of package sign. It is for tests.
package signtest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/dunglas/httpsfv"
)

// Directory returns the thumbprints, sorted, of the keys that a response publishes. The
// response must be a directory at this authority, signed by each of the keys, whose
// signatures hold at this time and while caches may keep them.
func Directory(resp *http.Response, authority string, now time.Time) (ids []string, err error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the status is %s:\n%s", resp.Status, body)
	}
	if got := resp.Header["Content-Type"]; !slices.Equal(got, []string{"application/http-message-signatures-directory+json"}) {
		return nil, fmt.Errorf("the type is %q", got)
	}
	var maxAge int64
	if _, err := fmt.Sscanf(resp.Header.Get("Cache-Control"), "max-age=%d", &maxAge); err != nil {
		return nil, fmt.Errorf("Cache-Control %q: %w", resp.Header.Get("Cache-Control"), err)
	}
	sum := sha256.Sum256(body)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	if got := resp.Header.Get("Content-Digest"); got != digest {
		return nil, fmt.Errorf("Content-Digest is %s, and the body's is %s", got, digest)
	}
	keys, err := publicKeys(body)
	if err != nil {
		return nil, err
	}
	signers, err := verify(resp.Header, authority, digest, keys, now.Unix(), now.Unix()+maxAge)
	for id := range keys {
		ids = append(ids, id)
		if !slices.Contains(signers, id) {
			err = errors.Join(err, fmt.Errorf("%s does not sign", id))
		}
	}
	slices.Sort(ids)
	return ids, err
}

// publicKeys returns the keys of a JWK Set by their thumbprints.
func publicKeys(body []byte) (map[string]ed25519.PublicKey, error) {
	var set struct {
		Keys []struct{ Kty, Crv, Kid, X, Use string }
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	keys := map[string]ed25519.PublicKey{}
	for _, k := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + k.X + `"}`))
		id := base64.RawURLEncoding.EncodeToString(sum[:])
		if err != nil || len(x) != ed25519.PublicKeySize || k.Kty != "OKP" || k.Crv != "Ed25519" || k.Use != "sig" || k.Kid != id {
			return nil, fmt.Errorf("%+v is no Ed25519 key with the thumbprint %s", k, id)
		}
		keys[id] = x
	}
	return keys, nil
}

// verify returns the thumbprints of the keys that sign, each from before now until after end.
func verify(h http.Header, authority, digest string, keys map[string]ed25519.PublicKey, now, end int64) (ids []string, err error) {
	inputs, err := httpsfv.UnmarshalDictionary(h["Signature-Input"])
	if err != nil {
		return nil, err
	}
	signatures, err := httpsfv.UnmarshalDictionary(h["Signature"])
	if err != nil {
		return nil, err
	}
	for _, label := range inputs.Names() {
		member, _ := inputs.Get(label)
		list, _ := member.(httpsfv.InnerList)
		params, err := httpsfv.Marshal(list)
		if err != nil {
			return nil, err
		}
		id, _ := param[string](list, "keyid")
		created, _ := param[int64](list, "created")
		expires, _ := param[int64](list, "expires")
		if created == 0 || created >= now || expires <= end {
			return nil, fmt.Errorf("the signature of %s holds from %d to %d, and not from %d to %d", id, created, expires, now, end)
		}
		if tag, _ := param[string](list, "tag"); tag != "http-message-signatures-directory" {
			return nil, fmt.Errorf("the tag is %q", tag)
		}
		base := "\"@authority\";req: " + authority + "\n\"content-digest\": " + digest + "\n\"@signature-params\": " + params
		signature, _ := signatures.Get(label)
		item, _ := signature.(httpsfv.Item)
		octets, _ := item.Value.([]byte)
		if key := keys[id]; key == nil || !ed25519.Verify(key, []byte(base), octets) {
			return nil, fmt.Errorf("%q does not sign this:\n%s", id, base)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func param[T any](list httpsfv.InnerList, name string) (value T, ok bool) {
	if list.Params == nil {
		return value, false
	}
	any, _ := list.Params.Get(name)
	value, ok = any.(T)
	return value, ok
}
