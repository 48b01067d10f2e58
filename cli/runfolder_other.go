//go:build !unix

package cli

import (
	"errors"
	"os"
)

func lockFolder(string) (*os.File, error) { return nil, errors.ErrUnsupported }
