package keeper

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"robotsproxy/robots"
	"robotsproxy/robots/keeper/memory"
	"robotsproxy/robots/policy"
	"robotsproxy/robots/store"
)

// A History holds the distinct answers of an origin over time, the newest first.
type History struct {
	Kind     policy.Kind `json:"-"`      // of the file
	Origin   string      `json:"origin"` // or, of a tdmrep.json, its URL
	Versions []Version   `json:"versions"`
}

// A Version is one answer, with the first and the last time that it was given.
type Version struct {
	SHA256    string    `json:"sha256,omitempty"` // of Text; empty if the answer was no text
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	Status    int       `json:"status"`
	Text      string    `json:"text,omitempty"`
	Diff      string    `json:"diff,omitempty"` // unified, from the text of the version before it
}

// Versions returns the distinct answers of an origin's file, as [store.Store] does.
func (fs Files) Versions(ctx context.Context, origin robots.Origin) ([]store.Version, error) {
	return fs.keeper.store.Versions(ctx, fs.key(origin).String())
}

// Text returns the text of a version of an origin's file, as [store.Store] does.
func (fs Files) Text(ctx context.Context, origin robots.Origin, sha256 string) (text []byte, ok bool, err error) {
	return fs.keeper.store.Text(ctx, fs.key(origin).String(), sha256)
}

// URL is that of an origin's file.
func (fs Files) URL(origin robots.Origin) string {
	return robots.Target{Origin: origin, Path: fs.kind.Path()}.String()
}

func (fs Files) key(origin robots.Origin) memory.Key {
	return memory.Key{Origin: origin, Kind: fs.kind}
}

// maxHistoryTexts bounds the texts of a history, in octets: an origin may serve another text each
// time.
const maxHistoryTexts = 64 << 20

// History returns the history of an origin's file: of its versions the last ones, as many as have
// up to 64 MiB of text, and at least one. It has none if the origin has never answered. The error
// is that of the store.
func (fs Files) History(ctx context.Context, origin robots.Origin) (History, error) {
	h := History{Kind: fs.kind, Origin: fs.key(origin).String()}
	versions, err := fs.Versions(ctx, origin)
	if err != nil {
		return h, err
	}
	read := 0
	for _, v := range versions {
		shown := Version{SHA256: v.SHA256, FirstSeen: v.FirstSeen.UTC(), LastSeen: v.LastSeen.UTC(), Status: v.Status}
		if v.SHA256 != "" {
			text, ok, err := fs.Text(ctx, origin, v.SHA256)
			if err != nil {
				return h, err
			}
			if !ok { // it has been dropped
				continue
			}
			if read += len(text); read > maxHistoryTexts && len(h.Versions) > 0 {
				break
			}
			shown.Text = string(text)
		}
		h.Versions = append(h.Versions, shown)
	}
	for i := range len(h.Versions) - 1 {
		if h.Versions[i].Diff, err = diff(&h.Versions[i+1], &h.Versions[i]); err != nil {
			return h, fmt.Errorf("comparing versions of %s: %w", h.Origin, err)
		}
	}
	return h, nil
}

func diff(from, to *Version) (string, error) {
	return udiff.ToUnified(label(from), label(to), from.Text, udiff.Lines(from.Text, to.Text), udiff.DefaultContextLines)
}

// label names a version in a diff.
func label(v *Version) string {
	return strings.TrimSpace(fmt.Sprintf("%d %.12s", v.Status, v.SHA256))
}
