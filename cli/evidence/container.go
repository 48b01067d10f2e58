package evidence

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"strings"
)

// The files of an archive, besides that of the source and those of keys.
const (
	readmeFile   = "README.txt"
	indexFile    = "robots.jsonl"
	textsFile    = "robots.warc.gz"
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

// What the header of a zip file says of each of ours.
const (
	storedVersion = 10                   // of the format: stored files need no more
	unixZip       = 3<<8 | storedVersion // the attributes are those of Unix
	regularFile   = 0o100644 << 16       // the attributes
	firstDay      = 1<<5 | 1             // 1980-01-01, the first day that zip knows
)

// A member is a file of an archive.
type member struct {
	name   string
	size   int64
	crc    uint32
	sha256 [sha256.Size]byte
	open   func() (io.ReadCloser, error)
}

// inMemory returns a small file.
func inMemory(name string, content []byte) member {
	return member{
		name: name, size: int64(len(content)), crc: crc32.ChecksumIEEE(content), sha256: sha256.Sum256(content),
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}

// isSeal reports whether a file is the manifest or a signature of it, which the manifest can't
// list.
func isSeal(name string) bool {
	return name == manifestFile || strings.HasPrefix(name, sealPrefix) && strings.HasSuffix(name, sealSuffix)
}

// manifest lists the files, as sha256sum writes and checks them.
func manifest(members []member) []byte {
	var list bytes.Buffer
	for _, m := range members {
		if !isSeal(m.name) {
			fmt.Fprintf(&list, "%s  %s\n", hex.EncodeToString(m.sha256[:]), m.name)
		}
	}
	return list.Bytes()
}

// inOrder sorts the files by name: so they stand in an archive and in the manifest.
func inOrder(members []member) {
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
}

// container writes a zip file that has the members, which are in order. The members alone
// say what octets it has: nothing is compressed here, as a compressor has many ways to write
// the same; there are no times, no comments and nothing between the files. So [Verify] can
// tell an archive from any other file that unzips to the same.
func container(w io.Writer, members []member) error {
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
		if err := copyMember(to, m); err != nil {
			return err
		}
	}
	return archive.Close()
}

// header says of a member what a zip file does.
func (m *member) header() *zip.FileHeader {
	return &zip.FileHeader{
		Name: m.name, Method: zip.Store, CRC32: m.crc,
		CompressedSize64: uint64(m.size), UncompressedSize64: uint64(m.size),
		CreatorVersion: unixZip, ReaderVersion: storedVersion, ExternalAttrs: regularFile,
		//lint:ignore SA1019 CreateRaw does not heed the field Modified
		ModifiedDate: firstDay,
	}
}

func copyMember(to io.Writer, m member) error {
	from, err := m.open()
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}

// A spool is a member that is being written to a scratch file.
type spool struct {
	file   io.ReadWriteSeeker
	buffer *bufio.Writer
	sum    hash.Hash
	member
}

func newSpool(name string, scratch func() (io.ReadWriteSeeker, error)) (*spool, error) {
	file, err := scratch()
	if err != nil {
		return nil, err
	}
	return &spool{file, bufio.NewWriterSize(file, 1<<16), sha256.New(), member{name: name}}, nil
}

// Write implements [io.Writer].
func (s *spool) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.sum.Write(p)
	return s.buffer.Write(p)
}

// end returns the member, which reads the scratch file.
func (s *spool) end() (member, error) {
	if err := s.buffer.Flush(); err != nil {
		return member{}, err
	}
	s.sum.Sum(s.sha256[:0])
	s.open = func() (io.ReadCloser, error) {
		_, err := s.file.Seek(0, io.SeekStart)
		return io.NopCloser(s.file), err
	}
	return s.member, nil
}
