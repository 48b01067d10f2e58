package sign

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"robotsproxy/robots"
)

const (
	// DirectoryPath is where older verifiers look for the directory of the origin in
	// Signature-Agent (section 8.1 of the draft). Newer ones fetch the origin itself (section
	// 5.5), so it serves the directory at / too.
	DirectoryPath = "/.well-known/http-message-signatures-directory"
	// DirectoryType is the directory's Content-Type, without parameters (section 5.5.1 of the
	// draft).
	DirectoryType = "application/http-message-signatures-directory+json"
)

// jwk is a public key as JSON (RFC 7517 section 4, RFC 8037 section 2). Its members are in the
// order in which they are written.
type jwk struct {
	KeyType string `json:"kty"`
	Curve   string `json:"crv"`
	ID      string `json:"kid"`
	X       string `json:"x"`
	Use     string `json:"use"`
}

// JWKSet returns the public halves of keys, in their order, as a JWK Set (RFC 7517 section 5)
// without white space. It is the body of the directory.
func JWKSet(keys []*Key) []byte {
	set := struct {
		Keys []jwk `json:"keys"`
	}{[]jwk{}}
	for _, key := range keys {
		set.Keys = append(set.Keys, jwk{"OKP", "Ed25519", key.id, key.x, "sig"})
	}
	body, _ := json.Marshal(set) // strings always marshal
	return body
}

// A Directory is the response that publishes keys: status 200, this body, and these fields.
// Verifiers follow no redirect to it (section 5.5 of the draft).
type Directory struct {
	Body           []byte // the JWK Set
	ContentDigest  string // of Body, with SHA-256 (RFC 9530 section 2)
	SignatureInput string
	Signature      string
}

// Set puts the fields that depend on the keys, and Content-Type, into h, in place of those
// that are there.
func (d *Directory) Set(h http.Header) {
	h.Set("Content-Type", DirectoryType)
	h.Set("Content-Digest", d.ContentDigest)
	h.Set("Signature-Input", d.SignatureInput)
	h.Set("Signature", d.Signature)
}

// SignDirectory returns the directory of keys at an origin. Each key signs it, which proves
// that whoever publishes a key there holds it (section B.1 of the draft). The signatures cover
// the origin's authority, as the verifier asked for it, and the body's digest. They hold from
// created to expires, in whole seconds. Verifiers refuse a created that is in their future.
//
// It returns an error if there is no key, if a key is there twice, if the origin is empty, or
// if the signatures expire before they are created.
func SignDirectory(keys []*Key, origin robots.Origin, created, expires time.Time) (Directory, error) {
	authority, err := derive("@authority", "", robots.Target{Origin: origin})
	switch {
	case err != nil:
		return Directory{}, fmt.Errorf("sign the directory: %w", err)
	case len(keys) == 0:
		return Directory{}, errors.New("sign the directory: there is no key")
	case expires.Unix() <= created.Unix():
		return Directory{}, fmt.Errorf("sign the directory: it would expire at %s, and it is signed at %s", expires.Format(time.RFC3339), created.Format(time.RFC3339))
	}
	body := JWKSet(keys)
	sum := sha256.Sum256(body)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	covered := []component{{`"@authority";req`, authority}, {`"content-digest"`, digest}}

	seen := map[string]bool{}
	var inputs, signatures []string
	for i, key := range keys {
		if seen[key.id] {
			return Directory{}, fmt.Errorf("sign the directory: the key %s is there twice", key.id)
		}
		seen[key.id] = true
		input, signature := key.sign(directoryLabel(i), covered, fmt.Sprintf(
			`;created=%d;expires=%d;keyid="%s";tag="http-message-signatures-directory"`, created.Unix(), expires.Unix(), key.id))
		inputs, signatures = append(inputs, input), append(signatures, signature)
	}
	return Directory{body, digest, strings.Join(inputs, ", "), strings.Join(signatures, ", ")}, nil
}

// directoryLabel names the signature of the key with this index: binding, binding2, binding3…
func directoryLabel(i int) string {
	if i == 0 {
		return "binding"
	}
	return "binding" + strconv.Itoa(i+1)
}
