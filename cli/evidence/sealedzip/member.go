package sealedzip

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// A Member is a file of an archive. Make one by [InMemory] or by a [Spool].
type Member struct {
	name   string // of letters, digits and -_. alone, and begins with none of -.
	size   int64
	crc    uint32
	sha256 [sha256.Size]byte
	open   func() (io.ReadCloser, error)
}

// InMemory returns a small file. Its name must consist of ASCII letters, digits, "-", "_" and
// ".", and begin with none of "-" and ".".
func InMemory(name string, content []byte) Member {
	return Member{
		name: name, size: int64(len(content)), crc: crc32.ChecksumIEEE(content), sha256: sha256.Sum256(content),
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	}
}

func (m *Member) copyTo(w io.Writer) error {
	from, err := m.open()
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(w, from)
	return err
}

// content returns a small file.
func (m *Member) content() ([]byte, error) {
	if m.size > maxSmall {
		return nil, fmt.Errorf("its file %s has %d octets, more than such a file ever has", m.name, m.size)
	}
	var content bytes.Buffer
	err := m.copyTo(&content)
	return content.Bytes(), err
}

// A Spool is a member that is being written to a scratch file, since it may not fit in memory.
type Spool struct {
	file   io.ReadWriteSeeker
	buffer *bufio.Writer
	sum    hash.Hash
	member Member
}

// NewSpool returns the spool of a member, named as [InMemory] says. It uses the scratch file,
// which must be empty, until the archive is written; the caller then removes it.
func NewSpool(name string, scratch io.ReadWriteSeeker) *Spool {
	return &Spool{scratch, bufio.NewWriterSize(scratch, 1<<16), sha256.New(), Member{name: name}}
}

// Write implements [io.Writer].
func (s *Spool) Write(p []byte) (int, error) {
	s.member.size += int64(len(p))
	s.member.crc = crc32.Update(s.member.crc, crc32.IEEETable, p)
	s.sum.Write(p)
	return s.buffer.Write(p)
}

// Member ends the spool and returns its member, which reads the scratch file.
func (s *Spool) Member() (Member, error) {
	if err := s.buffer.Flush(); err != nil {
		return Member{}, err
	}
	s.sum.Sum(s.member.sha256[:0])
	s.member.open = func() (io.ReadCloser, error) {
		_, err := s.file.Seek(0, io.SeekStart)
		return io.NopCloser(s.file), err
	}
	return s.member, nil
}
