package child

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// folderPrefix begins the name of every Folder.
const folderPrefix = "robotsproxy-run-"

// errFolderTaken is what lockFolder returns for a folder that another process holds.
var errFolderTaken = errors.New("another process holds it")

// A Folder holds files for the command of one run. Everybody may read it, because the
// command may run as another user, so it must never hold a secret. This process keeps the
// folder locked for as long as it lives. That lets the next run recognise the folder of a
// run that was killed, and has systemd-tmpfiles leave a live one alone.
type Folder struct {
	Path string
	lock *os.File // nil where folders cannot be locked
}

// MakeFolder makes a folder in parent, and parent if it does not exist; "" stands for the
// system's folder for temporary files. It also removes the folders of runs that were
// killed. Callers must call Close.
//
// If everybody may write to parent, others may create any name there. So the name is
// random, and a folder that exists already is never used.
func MakeFolder(parent string) (*Folder, error) {
	if parent == "" {
		parent = os.TempDir()
	} else if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, err
	}
	removeDeadFolders(parent)
	for {
		path, err := os.MkdirTemp(parent, folderPrefix+"*") // private until it is locked
		if err != nil {
			return nil, err
		}
		lock, err := lockFolder(path)
		if errors.Is(err, errFolderTaken) || errors.Is(err, fs.ErrNotExist) {
			continue // a run that started meanwhile has taken it for a dead run's
		}
		f := &Folder{path, lock}
		if err := os.Chmod(path, 0o755); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// Inside reports whether a file, by its path, is in a Folder: then another run's command has
// been told of it.
func Inside(path string) bool {
	return strings.HasPrefix(filepath.Base(filepath.Dir(path)), folderPrefix)
}

// Close removes the folder and all in it.
func (f *Folder) Close() error {
	err := os.RemoveAll(f.Path)
	f.lock.Close()
	return err
}

// removeDeadFolders removes the folders in parent whose processes have ended.
func removeDeadFolders(parent string) {
	entries, _ := os.ReadDir(parent) // if parent cannot be read, there are none
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), folderPrefix) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		if lock, err := lockFolder(path); err == nil {
			os.RemoveAll(path)
			lock.Close()
		}
	}
}
