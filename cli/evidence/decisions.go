package evidence

import (
	"compress/gzip"
	"context"
	"errors"
	"slices"
	"strings"

	"robotsproxy/cli/evidence/sealedzip"
)

// writeDecisions writes the file of decisions. It returns the texts that they name, in hex, by
// origin; the origins of the scope are among them, even if there was no request.
func (a *Archive) writeDecisions(ctx context.Context, found *Found) (m sealedzip.Member, named map[string][]string, err error) {
	file, err := a.spool(a.Source.file())
	if err != nil {
		return m, nil, err
	}
	named = map[string][]string{}
	for _, origin := range a.Origins {
		named[origin] = nil
	}
	packed := gzip.NewWriter(file)
	err = a.Source.read(ctx, &a.Scope, found, func(e entry) error {
		found.Decisions++
		note(named, e)
		_, err := packed.Write(e.line)
		_, err2 := packed.Write([]byte{'\n'})
		return errors.Join(err, err2)
	})
	if err = errors.Join(err, packed.Close()); err != nil {
		return m, nil, err
	}
	found.Origins = len(named)
	m, err = file.Member()
	return m, named, err
}

// note adds what an entry names. It keeps no part of the entry's line.
func note(named map[string][]string, e entry) {
	if e.origin == "" {
		return
	}
	sums, known := named[e.origin]
	switch {
	case !known && e.sha256 == "":
		named[strings.Clone(e.origin)] = nil
	case !known:
		named[strings.Clone(e.origin)] = []string{strings.Clone(e.sha256)}
	case e.sha256 != "" && !slices.Contains(sums, e.sha256):
		named[e.origin] = append(sums, strings.Clone(e.sha256))
	}
}

// has reports whether the scope has an origin.
func (s *Scope) has(origin string) bool {
	return len(s.Origins) == 0 || slices.Contains(s.Origins, origin)
}
