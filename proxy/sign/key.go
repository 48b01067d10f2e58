package sign

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// A Key is an Ed25519 key pair. It is immutable, and no verb of package fmt prints its private
// half.
type Key struct {
	private ed25519.PrivateKey
	x       string // the public half, in base64url
	id      string
}

// NewKey returns the key of a private key of [ed25519.PrivateKeySize] octets, as
// [ed25519.GenerateKey] and [ed25519.NewKeyFromSeed] make them.
func NewKey(private ed25519.PrivateKey) *Key {
	x := base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey))
	return &Key{private, x, thumbprint(x)}
}

// ID is the key's JWK thumbprint, by which verifiers find it (section 5.2 of the draft).
func (k *Key) ID() string { return k.id }

// PEM is the private key as [ReadKey] reads it.
func (k *Key) PEM() []byte {
	der, _ := x509.MarshalPKCS8PrivateKey(k.private) // an Ed25519 key always marshals
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Format writes the key's thumbprint, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { io.WriteString(s, k.id) }

// PublicPEM is the public key as OpenSSL and others read it (RFC 8410 section 4).
func (k *Key) PublicPEM() []byte {
	der, _ := x509.MarshalPKIXPublicKey(k.private.Public()) // an Ed25519 key always marshals
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// SignFile returns the Ed25519 signature of a file, of [ed25519.SignatureSize] octets
// (RFC 8032 section 5.1.6). The same file gets the same signature each time. The file must not
// begin with a quotation mark: so do the texts by which requests are signed (RFC 9421 section
// 2.5), and the signature of such a file could be taken for that of a request.
func (k *Key) SignFile(file []byte) []byte { return k.signOctets(file) }

// Thumbprint returns the [Key.ID] of the key whose public half this is.
func Thumbprint(public ed25519.PublicKey) string {
	return thumbprint(base64.RawURLEncoding.EncodeToString(public))
}

func (k *Key) signOctets(message []byte) []byte { return ed25519.Sign(k.private, message) }

// thumbprint returns the JWK thumbprint with SHA-256 of the public key whose member "x" is x,
// in base64url without padding (RFC 7638 section 3, RFC 8037 section A.3).
func thumbprint(x string) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// publishedKey is the thumbprint of the key in RFC 9421 section B.1.4, with which the drafts
// sign their examples. All the world has its private half, so it must sign nothing else
// (section 6.8 of the draft).
const publishedKey = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"

// maxKeyFile is more octets than any Ed25519 key takes, with all that people write around it.
const maxKeyFile = 64 << 10

// makeKey is what to do about a file without a key that can sign.
const makeKey = "make one with: robotsproxy keys new FILE"

// CreateKey makes a key and writes it to a new file, which only its owner may read. It never
// overwrites a file, and leaves none behind if it fails. [ReadKey] reads the file.
func CreateKey(path string) (*Key, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	key := NewKey(private)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("make a key: %w, and may be a key in use; choose another name", err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("make a key: %w; make the folder first", err)
	case err != nil:
		return nil, fmt.Errorf("make a key: %w", err)
	}
	_, err = file.Write(key.PEM())
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, fmt.Errorf("make a key: %w", errors.Join(err, os.Remove(path)))
	}
	return key, nil
}

// ReadKey reads the first private key of a PEM file. It must be an Ed25519 key in PKCS #8
// without a password (RFC 8410 section 7). ReadKey refuses a file that is open to all users
// of the machine, and the test key that the RFC publishes. Its errors name the file, say what
// to do, and never show what is in the file.
func ReadKey(path string) (*Key, error) {
	text, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the signing key %s: %w", path, err)
	}
	return key, nil
}

// readPrivate returns what is in a regular file that is not open to all. The file's group may
// read it: that is how Kubernetes hands out secrets. It never waits, as opening a named pipe
// would for whoever writes to it.
func readPrivate(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file; keys are read again at each reload, so they must stay in files", path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("everyone on this machine may open %s, and with it pose as your bot; chmod 600 it, and use a new key if others had it", path)
	}
	return io.ReadAll(io.LimitReader(file, maxKeyFile))
}

func parseKey(text []byte) (*Key, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			return parsePKCS8(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("it is encrypted, and nobody is there to give the password at the start; decrypt it with openssl pkey")
		case "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "OPENSSH PRIVATE KEY":
			return nil, fmt.Errorf("its PEM type is %s, and only an Ed25519 key in PKCS #8 (PRIVATE KEY) can sign; %s", block.Type, makeKey)
		}
	}
	return nil, fmt.Errorf("it has no PEM private key; %s", makeKey)
}

func parsePKCS8(der []byte) (*Key, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, makeKey)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T, and only an Ed25519 key can sign; %s", parsed, makeKey)
	}
	key := NewKey(private)
	if key.id == publishedKey {
		return nil, fmt.Errorf("it is the test key that RFC 9421 publishes, with which everyone can sign; %s", makeKey)
	}
	return key, nil
}
