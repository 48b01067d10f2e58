package evidence

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"robotsproxy/cli/evidence/sealedzip"
	"robotsproxy/cli/evidence/warc"
	"robotsproxy/internal/printable"
	"robotsproxy/robots/store"
	"robotsproxy/robots/store/counts"
)

// An indexLine says of one version of a file when it was served, and where its text is.
type indexLine struct {
	Origin    string    `json:"origin"`
	URL       string    `json:"url"`
	SHA256    string    `json:"sha256,omitempty"` // as robots_sha256 of decisions
	Status    int       `json:"status,omitempty"`
	FirstSeen time.Time `json:"first_seen,omitzero"`
	LastSeen  time.Time `json:"last_seen,omitzero"`
	RecordID  string    `json:"warc_record_id,omitempty"`
	Missing   bool      `json:"missing,omitempty"`
}

// textsDescription says what the texts in the WARC file are.
const textsDescription = "texts that say what bots may do, as robotsproxy has read them; without the HTTP header, and no longer than it reads"

// writeVersions writes the files' versions: those that may have ruled in the period, and those
// that decisions name. The index tells of all, the WARC file has the texts.
func (a *Archive) writeVersions(ctx context.Context, named map[string][]string, found *Found) (index, texts sealedzip.Member, err error) {
	indexSpool, err := a.spool(indexFile)
	if err != nil {
		return index, texts, err
	}
	textSpool, err := a.spool(textsFile)
	if err != nil {
		return index, texts, err
	}
	w := versionWriter{index: indexSpool, period: a.Period, found: found}
	if w.texts, err = warc.NewWriter(textSpool, warc.Info{Filename: textsFile, Software: a.Software, Description: textsDescription, Date: a.From.Start()}); err != nil {
		return index, texts, err
	}
	for _, origin := range slices.Sorted(maps.Keys(named)) {
		if err := ctx.Err(); err != nil {
			return index, texts, err
		}
		files, err := a.Files(ctx, origin)
		if err != nil {
			return index, texts, err
		}
		for _, f := range files {
			if err := w.write(ctx, origin, f, named[origin]); err != nil {
				return index, texts, err
			}
		}
	}
	index, err = indexSpool.Member()
	texts, err2 := textSpool.Member()
	return index, texts, errors.Join(err, err2)
}

// A versionWriter writes versions to the index and to the WARC file.
type versionWriter struct {
	index  io.Writer
	texts  *warc.Writer
	period counts.Period
	found  *Found
}

// write writes the versions of a file of an origin whose decisions name these texts.
func (w *versionWriter) write(ctx context.Context, origin string, f File, named []string) error {
	if !f.Decides {
		named = nil
	}
	missing := slices.Clone(named)
	for _, v := range oldestFirst(f.Versions) {
		if !slices.Contains(named, v.SHA256) && !mayRule(v, f.Versions, w.period) {
			continue
		}
		text, intact, err := f.textOf(ctx, v)
		if err != nil {
			return err
		}
		if !intact {
			continue
		}
		missing = slices.DeleteFunc(missing, func(sum string) bool { return sum == v.SHA256 })
		line := indexLine{Origin: origin, URL: f.URL, SHA256: v.SHA256, Status: v.Status, FirstSeen: v.FirstSeen.UTC(), LastSeen: v.LastSeen.UTC()}
		if v.SHA256 != "" {
			if line.RecordID, err = w.texts.Resource(f.URL, f.MediaType, text, v.FirstSeen); err != nil {
				return err
			}
		}
		w.found.Versions++
		if err := w.writeLine(line); err != nil {
			return err
		}
	}
	slices.Sort(missing)
	for _, sum := range missing {
		w.found.Missing = append(w.found.Missing, Missing{origin, sum})
		if err := w.writeLine(indexLine{Origin: origin, URL: f.URL, SHA256: sum, Missing: true}); err != nil {
			return err
		}
	}
	return nil
}

func (w *versionWriter) writeLine(line indexLine) error {
	text, err := printable.Marshal(line)
	if err != nil {
		return fmt.Errorf("writing about %s: %w", line.URL, err)
	}
	_, err = w.index.Write(text)
	return err
}

func oldestFirst(versions []store.Version) []store.Version {
	return slices.SortedStableFunc(slices.Values(versions), func(a, b store.Version) int {
		return a.FirstSeen.Compare(b.FirstSeen)
	})
}

// textOf returns the text of a version, which may have none. intact is false if it is no longer
// kept, or is not that of its sum.
func (f *File) textOf(ctx context.Context, v store.Version) (text []byte, intact bool, err error) {
	if v.SHA256 == "" {
		return nil, true, nil
	}
	text, ok, err := f.Text(ctx, v.SHA256)
	sum := sha256.Sum256(text)
	return text, ok && hex.EncodeToString(sum[:]) == v.SHA256, err
}

// mayRule reports whether a version may have ruled at some time of the period: from when it was
// first seen until another one was seen after it was last seen.
func mayRule(v store.Version, all []store.Version, period counts.Period) bool {
	if !v.FirstSeen.Before((period.Until + 1).Start()) {
		return false
	}
	start := period.From.Start()
	for _, other := range all {
		for _, seen := range []time.Time{other.FirstSeen, other.LastSeen} {
			if seen.After(v.LastSeen) && !seen.After(start) {
				return false
			}
		}
	}
	return true
}
