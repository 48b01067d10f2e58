// Package sealedzip is the form of archives of evidence: a zip file in which SHA256SUMS lists
// all other files, and keys sign SHA256SUMS. Sha256sum and openssl can check it too.
//
// [Write] makes one of [Member] values. [Verify] shows that not one octet of one was changed.
// For that, the members alone say what octets the file has: nothing is compressed here, as a
// compressor has many ways to write the same; there are no times, no comments and nothing
// between the files. So a sealed file differs from every other that unzips to the same.
package sealedzip

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"robotsproxy/proxy/sign"
)

// The files that are there besides the members.
const (
	manifestFile = "SHA256SUMS"
	keySetFile   = "keys.json"

	// Of a key with an ID: the public key is in keyPrefix + ID + keySuffix, its signature of
	// the manifest in sealPrefix + ID + sealSuffix.
	keyPrefix, keySuffix   = "key-", ".pem"
	sealPrefix, sealSuffix = manifestFile + ".", ".sig"
)

// The bounds of an archive.
const (
	maxMembers = 256              // files
	maxSmall   = 64 << 10         // octets of a file that is read into memory, and of the zip's directory
	maxSize    = 4<<30 - maxSmall // octets: beyond, many programs do not read zip files
)

// Write writes an archive that has the members, whose names differ. Each key signs it; the
// public keys are in it. A key that is named several times is there once. Write returns an
// error if the archive would have more than every program reads.
func Write(w io.Writer, members []Member, keys []*sign.Key) error {
	return writeZip(w, seal(slices.Concat(members, keyFiles(keys)), keys))
}

// keyFiles are the files with the public keys.
func keyFiles(keys []*sign.Key) (files []Member) {
	if len(keys) == 0 {
		return nil
	}
	keys = distinct(keys)
	for _, k := range keys {
		files = append(files, InMemory(keyPrefix+k.ID()+keySuffix, k.PublicPEM()))
	}
	return append(files, InMemory(keySetFile, sign.JWKSet(keys)))
}

// seal adds the manifest and its signatures, and puts all in order.
func seal(members []Member, keys []*sign.Key) []Member {
	inOrder(members)
	list := manifest(members)
	members = append(members, InMemory(manifestFile, list))
	for _, k := range distinct(keys) {
		members = append(members, InMemory(sealPrefix+k.ID()+sealSuffix, k.SignFile(list)))
	}
	inOrder(members)
	return members
}

// distinct returns each key once, where it is first named.
func distinct(keys []*sign.Key) (once []*sign.Key) {
	for _, k := range keys {
		if !slices.ContainsFunc(once, func(other *sign.Key) bool { return other.ID() == k.ID() }) {
			once = append(once, k)
		}
	}
	return once
}

// isSeal reports whether a file is the manifest or a signature of it, which the manifest can't
// list.
func isSeal(name string) bool {
	return name == manifestFile || strings.HasPrefix(name, sealPrefix) && strings.HasSuffix(name, sealSuffix)
}

// manifest lists the files, as sha256sum writes and checks them.
func manifest(members []Member) []byte {
	var list bytes.Buffer
	for _, m := range members {
		if !isSeal(m.name) {
			fmt.Fprintf(&list, "%s  %s\n", hex.EncodeToString(m.sha256[:]), m.name)
		}
	}
	return list.Bytes()
}

// inOrder sorts the files by name: so they stand in an archive and in the manifest.
func inOrder(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.name, b.name) })
}

// What the header of a zip file says of each of ours.
const (
	storedVersion = 10                   // of the format: stored files need no more
	unixZip       = 3<<8 | storedVersion // the attributes are those of Unix
	regularFile   = 0o100644 << 16       // the attributes
	firstDay      = 1<<5 | 1             // 1980-01-01, the first day that zip knows
)

// writeZip writes a zip file that has the members, which are in order.
func writeZip(w io.Writer, members []Member) error {
	size := int64(0)
	for _, m := range members {
		size += m.size
	}
	if size > maxSize-maxSmall || len(members) > maxMembers {
		return fmt.Errorf("the archive would have %d MiB in %d files, and %d MiB in %d files are the most that every program reads; make several, of fewer days or origins",
			size>>20, len(members), maxSize>>20, maxMembers)
	}
	archive := zip.NewWriter(w)
	for _, m := range members {
		to, err := archive.CreateRaw(m.header())
		if err != nil {
			return err
		}
		if err := m.copyTo(to); err != nil {
			return err
		}
	}
	return archive.Close()
}

// header says of a member what a zip file does.
func (m *Member) header() *zip.FileHeader {
	return &zip.FileHeader{
		Name: m.name, Method: zip.Store, CRC32: m.crc,
		CompressedSize64: uint64(m.size), UncompressedSize64: uint64(m.size),
		CreatorVersion: unixZip, ReaderVersion: storedVersion, ExternalAttrs: regularFile,
		//lint:ignore SA1019 CreateRaw does not heed the field Modified
		ModifiedDate: firstDay,
	}
}
