package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// runFolderPrefix begins the names of the folders of runs.
const runFolderPrefix = "robotsproxy-run-"

// errFolderTaken is what lockFolder returns for a folder that another process holds.
var errFolderTaken = errors.New("another process holds it")

// A runFolder holds the files by which the clients of one run trust the CA. Everybody may
// read it, because the command may run as another user; it never holds a secret. The
// process keeps it locked as long as it lives. So the next run recognises the folder of a
// run that was killed, and systemd-tmpfiles leaves a live one alone.
type runFolder struct {
	path string
	held *os.File // nil where folders cannot be locked
}

// makeRunFolder makes a folder in parent, and parent if it does not exist; "" stands for
// the system's folder for temporary files. It also removes the folders of runs that were
// killed. Callers must call Close.
//
// If everybody may write to parent, others may create any name there. So the name is
// random, and a folder that exists already is never used.
func makeRunFolder(parent string) (*runFolder, error) {
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
		path, err := os.MkdirTemp(parent, runFolderPrefix+"*") // for us alone, until it is locked
		if err != nil {
			return nil, err
		}
		held, err := lockFolder(path)
		if errors.Is(err, errFolderTaken) || errors.Is(err, fs.ErrNotExist) {
			continue // a run that started meanwhile took it for a dead one's
		}
		f := &runFolder{path, held}
		if err := os.Chmod(path, 0o755); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// Close removes the folder.
func (f *runFolder) Close() error {
	err := os.RemoveAll(f.path)
	f.held.Close()
	return err
}

// removeDeadFolders removes the folders in parent whose processes have gone.
func removeDeadFolders(parent string) {
	entries, _ := os.ReadDir(parent) // none if it cannot be read
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), runFolderPrefix) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		if held, err := lockFolder(path); err == nil {
			os.RemoveAll(path)
			held.Close()
		}
	}
}
