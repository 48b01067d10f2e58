package summary

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"robotsproxy/internal/printable"
)

// CheckFile returns an error if WriteFile could not write the file now. It leaves the file
// as it is.
func CheckFile(path string) error {
	switch path {
	case "":
		return errors.New("the name is empty; name a file")
	case "-":
		return errors.New("standard output is the command's own; name a file, or ./- for one of that name")
	}
	there, err := os.Lstat(path)
	switch {
	case err == nil && there.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	case err == nil && !there.Mode().IsRegular(): // a rename would replace the device, pipe or link
		return fmt.Errorf("%s is not a regular file; name one, or one that is yet to be made", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return withRemedy(path, err)
	}
	temp, err := createTemp(path)
	if err == nil {
		err = errors.Join(temp.Close(), os.Remove(temp.Name()))
	}
	if err != nil {
		return withRemedy(path, err)
	}
	return nil
}

// WriteFile writes the summary as JSON. Readers of the file find what was there before or
// all of the summary.
func (s *Summary) WriteFile(path string) error {
	if err := s.replace(path); err != nil {
		return fmt.Errorf("writing the summary to %w", withRemedy(path, err))
	}
	return nil
}

func (s *Summary) replace(path string) error {
	text, err := printable.Marshal(s)
	if err != nil {
		return err
	}
	temp, err := createTemp(path)
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

// createTemp makes a file in the same folder. The user's umask says who may read it.
func createTemp(path string) (*os.File, error) {
	return os.OpenFile(filepath.Join(filepath.Dir(path), ".robotsproxy-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// withRemedy says about which of the user's files err is, and what to do.
func withRemedy(path string, err error) error {
	if its, ok := errors.AsType[*fs.PathError](err); ok {
		err = its.Err // its path may be that of the temporary file
	}
	return fmt.Errorf("%s: %w; name a file in a folder that is there and that you may write to", path, err)
}
