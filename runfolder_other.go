//go:build !unix

package main

import (
	"errors"
	"os"
)

func lockFolder(string) (*os.File, error) { return nil, errors.ErrUnsupported }
