// Package wholefile writes files that are there whole or not at all: [Create] a [File], write
// it, and [File.Commit] it under its name.
package wholefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Check returns an error if Create could not make the file now, or if Commit would replace
// what is no regular file. It leaves the file as it is.
func Check(path string) error {
	there, err := os.Lstat(path)
	switch {
	case path == "":
		return errors.New("the name is empty; name a file")
	case err == nil && there.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	case err == nil && !there.Mode().IsRegular(): // a rename would replace the device, pipe or link
		return fmt.Errorf("%s is not a regular file; name one, or one that is yet to be made", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return withRemedy(path, err)
	}
	f, err := Create(path)
	if err != nil {
		return err
	}
	f.Discard()
	return nil
}

// A File is being written. Nobody finds it under its name before Commit. Callers must call
// Commit or Discard.
type File struct {
	*os.File
	path string
}

// Create makes a file in the folder of path. The user's umask says who may read it.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".robotsproxy-"+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, withRemedy(path, err)
	}
	return &File{f, path}, nil
}

// Commit puts the file on the disk and gives it its name. It replaces a file that has the
// name already. After an error there is what was there before.
func (f *File) Commit() error {
	err := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return withRemedy(f.path, err)
	}
	return nil
}

// Discard removes the file. After Commit it does nothing.
func (f *File) Discard() {
	if f.Close() == nil {
		os.Remove(f.Name())
	}
}

// withRemedy says about which of the user's files err is, and what to do.
func withRemedy(path string, err error) error {
	if its, ok := errors.AsType[*fs.PathError](err); ok {
		err = its.Err // its path may be that of the temporary file
	}
	return fmt.Errorf("%s: %w; name a file in a folder that is there and that you may write to", path, err)
}
