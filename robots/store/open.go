package store

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
)

// Open opens the store that the options name. SQLite's file is in dataDir,
// which is made if it is not there; the store that does not last keeps up to
// about budget bytes.
func Open(ctx context.Context, opts Options, dataDir string, budget int64, log zerolog.Logger) (Store, error) {
	switch opts.Kind {
	case SQLite:
		return openSQLite(ctx, opts, dataDir, log)
	case Redis:
		return openRedis(opts)
	case None:
		return NewMemory(budget / 2), nil // the garbage collector lets the heap grow to twice what is in use
	}
	return nil, fmt.Errorf("opening the store of policies: %q is none; Kind is %s, %s or %s", opts.Kind, SQLite, Redis, None)
}
