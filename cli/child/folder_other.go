//go:build !unix

package child

import (
	"errors"
	"os"
)

func lockFolder(string) (*os.File, error) { return nil, errors.ErrUnsupported }
