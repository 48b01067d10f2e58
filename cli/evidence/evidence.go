// Package evidence makes archives that show how a bot was led in a period: what was decided
// about its requests, and the texts of robots.txt and tdmrep.json that ruled then. [Archive]
// says what goes in and writes it. [Verify] checks that nothing was changed since. Package
// sealedzip is the form that both know.
//
// The same inputs make the same archive, octet by octet.
package evidence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"robotsproxy/cli/evidence/sealedzip"
	"robotsproxy/proxy/sign"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// The files of an archive, besides that of the source and those that seal it.
const (
	readmeFile = "README.txt"
	indexFile  = "robots.jsonl"
	textsFile  = "robots.warc.gz"
)

// A Scope says what an archive is about.
type Scope struct {
	counts.Period
	Origins []string // none: all
}

// ErrNothing means that nothing is kept of the period: neither decisions, nor that there was
// none.
var ErrNothing = errors.New("nothing is kept of the period")

// A Source has decisions.
type Source interface {
	// read calls take with every decision of the scope, in an order that is always the same,
	// and notes in found what it finds. It returns [ErrNothing] if nothing is kept of the
	// period, of whichever origins.
	read(ctx context.Context, scope *Scope, found *Found, take func(entry) error) error
	// file is the name of the file that has them in the archive.
	file() string
}

// An entry goes into the archive as one line: a decision, or how often it was made.
type entry struct {
	line   []byte // JSON, without line end; valid until take returns
	origin string // in the normal form; "": it is not known
	sha256 string // of the robots.txt that decided, in hex; "": none did
}

// Found says what went into an archive, and what did not.
type Found struct {
	Decisions  int64 // lines, each of one decision or of one count
	Unreadable int64 // lines of logs that are cut or damaged
	Unassigned int64 // requests of which it is not kept to which origin they went, so they may be outside of the scope
	Origins    int   // of the decisions
	Versions   int   // of files, with and without a text
	Missing    []Missing
}

// A Missing is the text of a robots.txt that decided a request and that the store does not
// have, or no longer.
type Missing struct{ Origin, SHA256 string }

// A File is one of an origin's files that say what bots may do.
type File struct {
	URL       string
	MediaType string // that the file's standard gives it
	Decides   bool   // decisions name its texts: it is a robots.txt
	Versions  []store.Version
	// Text returns the text of one of them, by its SHA256. ok is false if it is no longer kept.
	Text func(ctx context.Context, sha256 string) (text []byte, ok bool, err error)
}

// An Archive is what goes into an archive.
type Archive struct {
	Scope
	Source   Source
	Files    func(ctx context.Context, origin string) ([]File, error)
	Signers  []Signer // with a key each; none: the archive is not signed
	Software string   // as in robotsproxy/1.2.3
	// Scratch makes an empty file for what does not fit in memory. The caller removes it.
	Scratch func() (io.ReadWriteSeeker, error)
}

// A Signer is who signs an archive.
type Signer struct {
	Identity string
	Agent    string // where the key is published
	Key      *sign.Key
}

// Write writes the archive. Memory grows with the number of origins, never with that of
// decisions.
func (a *Archive) Write(ctx context.Context, w io.Writer) (Found, error) {
	var found Found
	decisions, named, err := a.writeDecisions(ctx, &found)
	if err != nil {
		return found, err
	}
	index, texts, err := a.writeVersions(ctx, named, &found)
	if err != nil {
		return found, err
	}
	readme, err := a.readme(&found)
	if err != nil {
		return found, err
	}
	var keys []*sign.Key
	for _, s := range a.Signers {
		keys = append(keys, s.Key)
	}
	return found, sealedzip.Write(w, []sealedzip.Member{decisions, index, texts, sealedzip.InMemory(readmeFile, readme)}, keys)
}

// spool returns a file of the archive that is yet to be written.
func (a *Archive) spool(name string) (*sealedzip.Spool, error) {
	scratch, err := a.Scratch()
	if err != nil {
		return nil, err
	}
	return sealedzip.NewSpool(name, scratch), nil
}

// Verify returns an error unless the file of so many octets is an archive as [Archive.Write]
// writes it: sealed, and with all its files. See [sealedzip.Verify].
func Verify(file io.ReaderAt, size int64) (sealedzip.Verified, error) {
	v, err := sealedzip.Verify(file, size)
	if err != nil {
		return sealedzip.Verified{}, err
	}
	for _, name := range []string{readmeFile, indexFile, textsFile} {
		if !slices.Contains(v.Files, name) {
			return sealedzip.Verified{}, fmt.Errorf("it has no %s", name)
		}
	}
	if log, counted := (Log{}).file(), (Counts{}).file(); !slices.Contains(v.Files, log) && !slices.Contains(v.Files, counted) {
		return sealedzip.Verified{}, fmt.Errorf("it has neither %s nor %s", log, counted)
	}
	return v, nil
}
