package sealedzip

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"robotsproxy/proxy/sign"
)

// Verified is what an archive is shown to be.
type Verified struct {
	Files []string // the names that SHA256SUMS lists, in order
	Keys  []string // the thumbprints of the keys that have signed SHA256SUMS; none: it is not signed
}

// Verify returns an error unless the file of so many octets is an archive as [Write] writes it:
// SHA256SUMS lists each of its files and no other, the files are as it lists them, each key that
// is there has signed it, and not one octet differs. Whoever trusts a key knows that its owner
// has made the whole file.
//
// Verify reads only in the file, which may be hostile, and takes little memory.
func Verify(file io.ReaderAt, size int64) (Verified, error) {
	members, err := readZip(file, size)
	if err != nil {
		return Verified{}, err
	}
	for i := range members {
		if err := members[i].hash(); err != nil {
			return Verified{}, err
		}
	}
	if err := checkManifest(members); err != nil {
		return Verified{}, err
	}
	var v Verified
	if v.Keys, err = checkSignatures(members); err != nil {
		return Verified{}, err
	}
	for _, m := range members {
		if !isSeal(m.name) {
			v.Files = append(v.Files, m.name)
		}
	}
	expected := &comparer{bufio.NewReader(io.NewSectionReader(file, 0, size))}
	if err := writeZip(expected, members); err != nil {
		return Verified{}, err
	}
	if err := expected.atEnd(); err != nil {
		return Verified{}, err
	}
	return v, nil
}

// readZip returns the members of an archive. Their sums are yet to be made.
func readZip(file io.ReaderAt, size int64) ([]Member, error) {
	if size > maxSize {
		return nil, fmt.Errorf("it has more than %d MiB, and no archive of robotsproxy evidence has", maxSize>>20)
	}
	tail := &tailReader{file, size - maxSmall}
	archive, err := zip.NewReader(tail, size)
	if err != nil {
		return nil, fmt.Errorf("it is no archive of robotsproxy evidence, or not a whole one: %w", err)
	}
	tail.from = 0
	if len(archive.File) > maxMembers {
		return nil, fmt.Errorf("it has more than %d files, and no archive of robotsproxy evidence has", maxMembers)
	}
	var members []Member
	left := uint64(size)
	for i, f := range archive.File {
		switch {
		case !isPlainName(f.Name):
			return nil, fmt.Errorf("it has a file %q, and no archive of robotsproxy evidence has one with such a name", f.Name)
		case i > 0 && f.Name == archive.File[i-1].Name:
			return nil, fmt.Errorf("it has the file %s twice", f.Name)
		case i > 0 && f.Name < archive.File[i-1].Name:
			return nil, errRepacked
		case f.Method != zip.Store || f.UncompressedSize64 != f.CompressedSize64:
			return nil, errRepacked
		case f.UncompressedSize64 > left:
			return nil, fmt.Errorf("its file %s is longer than the archive", f.Name)
		}
		left -= f.UncompressedSize64
		members = append(members, Member{name: f.Name, size: int64(f.UncompressedSize64), crc: f.CRC32, open: f.Open})
	}
	return members, nil
}

// errRepacked means that the archive is not, octet by octet, as Write writes it.
var errRepacked = errors.New("it was changed or packed again since robotsproxy evidence made it; unpack it and check what is in it as its README.txt says")

// A tailReader reads the end of a file only, so that a directory of many millions of files
// takes no memory.
type tailReader struct {
	file io.ReaderAt
	from int64
}

func (t *tailReader) ReadAt(p []byte, at int64) (int, error) {
	if at < t.from {
		return 0, errors.New("its directory is too long")
	}
	return t.file.ReadAt(p, at)
}

// isPlainName reports whether a name needs no quotes anywhere, and names a file in the folder.
func isPlainName(name string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	return name != "" && name[0] != '.' && name[0] != '-' && strings.Trim(name, plain) == "" && len(name) < 200
}

// hash sets the member's sum.
func (m *Member) hash() error {
	sum := sha256.New()
	if err := m.copyTo(sum); err != nil {
		return fmt.Errorf("its file %s is damaged: %w", m.name, err)
	}
	sum.Sum(m.sha256[:0])
	return nil
}

func find(members []Member, name string) *Member {
	i := slices.IndexFunc(members, func(m Member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return &members[i]
}

// checkManifest returns an error unless the manifest lists the files as they are.
func checkManifest(members []Member) error {
	list := find(members, manifestFile)
	if list == nil {
		return fmt.Errorf("it has no %s", manifestFile)
	}
	listed, err := list.content()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(listed)) {
		_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if find(members, name) == nil || isSeal(name) {
			return fmt.Errorf("%s lists %q, which is not there", manifestFile, name)
		}
	}
	for i, m := range members {
		if line := string(manifest(members[i : i+1])); !strings.Contains("\n"+string(listed), "\n"+line) {
			if strings.Contains(string(listed), "  "+m.name+"\n") {
				return fmt.Errorf("its file %s was changed: it is not as %s lists it", m.name, manifestFile)
			}
			return fmt.Errorf("it has a file %s, which %s does not list", m.name, manifestFile)
		}
	}
	if !bytes.Equal(listed, manifest(members)) {
		return fmt.Errorf("%s was changed: it does not list every file once, in order", manifestFile)
	}
	return nil
}

// checkSignatures returns the thumbprints of the keys that have signed the manifest. It returns
// an error if there is a key that has not, or a signature without its key.
func checkSignatures(members []Member) (ids []string, err error) {
	list, err := find(members, manifestFile).content()
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if id, is := between(m.name, keyPrefix, keySuffix); is && find(members, sealPrefix+id+sealSuffix) == nil {
			return nil, fmt.Errorf("its key %s has not signed it: it has no %s", id, sealPrefix+id+sealSuffix)
		}
		id, is := between(m.name, sealPrefix, sealSuffix)
		if !is {
			continue
		}
		public, err := readPublic(members, id)
		if err != nil {
			return nil, err
		}
		signature, err := m.content()
		if err != nil {
			return nil, err
		}
		if !ed25519.Verify(public, list, signature) {
			return nil, fmt.Errorf("%s is not the signature of %s by the key %s", m.name, manifestFile, id)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// readPublic returns the key with this thumbprint.
func readPublic(members []Member, id string) (ed25519.PublicKey, error) {
	name := keyPrefix + id + keySuffix
	file := find(members, name)
	if file == nil {
		return nil, fmt.Errorf("it has a signature by the key %s, but no %s", id, name)
	}
	text, err := file.content()
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("its file %s has no public key", name)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its file %s: %w", name, err)
	}
	public, is := parsed.(ed25519.PublicKey)
	if !is || sign.Thumbprint(public) != id {
		return nil, fmt.Errorf("its file %s has another key", name)
	}
	return public, nil
}

// between returns what stands in a name between two parts.
func between(name, prefix, suffix string) (string, bool) {
	rest, has := strings.CutPrefix(name, prefix)
	if !has {
		return "", false
	}
	return strings.CutSuffix(rest, suffix)
}

// A comparer is written what a file should have, and returns an error where it differs.
type comparer struct{ file *bufio.Reader }

func (c *comparer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), c.file.Size())]
		is, err := c.file.Peek(len(part))
		if err != nil || !bytes.Equal(is, part) {
			return 0, errRepacked
		}
		c.file.Discard(len(part))
		rest = rest[len(part):]
	}
	return len(p), nil
}

// atEnd returns an error if the file has more.
func (c *comparer) atEnd() error {
	if _, err := c.file.Peek(1); err != io.EOF {
		return errRepacked
	}
	return nil
}
