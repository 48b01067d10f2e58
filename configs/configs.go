// Package configs has the full example of a configuration, which says what each key means. The
// manual and the schema quote it.
package configs

import _ "embed"

// Full is full.yaml: every key with its default, and a comment above it.
//
//go:embed full.yaml
var Full string
