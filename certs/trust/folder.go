package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// checkApart refuses a folder for clients that holds one of the files, at any depth, or whose
// name can't be written into the files there.
func checkApart(folder string, files ...string) error {
	if strings.ContainsAny(folder, "\r\n") {
		return fmt.Errorf("%q has a line break in its name", folder)
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, file := range files {
		if holds(folder, file) {
			return fmt.Errorf("clients may read all of %s, and %s is in it; keep them in different folders", folder, file)
		}
	}
	return nil
}

// holds reports whether file is somewhere in folder, by its name or where its links lead.
func holds(folder, file string) bool {
	paths := []string{file}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		paths = append(paths, target)
	}
	for _, path := range paths {
		path, err := filepath.Abs(path)
		for err == nil && path != filepath.Dir(path) {
			path = filepath.Dir(path)
			if sameFile(path, folder) {
				return true
			}
		}
	}
	return false
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// makeFolder makes a folder that everybody may read, whatever the umask. One that exists
// keeps the mode that somebody gave it.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o755)
	if err == nil {
		return os.Chmod(path, 0o755)
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		return nil
	}
	return err
}

// replace gives the file at path this content and mode. Its readers find the old content
// or the new one.
func replace(path string, content []byte, mode fs.FileMode) error {
	if holdsAlready(path, content, mode) {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

func holdsAlready(path string, content []byte, mode fs.FileMode) bool {
	present, has, err := readRegular(path)
	sameMode := has.Perm() == mode || runtime.GOOS == "windows" // where all are 0666
	return err == nil && bytes.Equal(present, content) && sameMode
}
