//go:build unix

package child

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// lockFolder locks a folder, which must belong to this user and must not be a symbolic
// link. The system releases the lock when this process ends, however it ends.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := lockOpenFolder(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func lockOpenFolder(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fs.ErrPermission
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errFolderTaken
	}
	if err != nil {
		return err
	}
	// The process that held the lock before may have removed the folder.
	if now, err := os.Lstat(f.Name()); err != nil || !os.SameFile(info, now) {
		return fs.ErrNotExist
	}
	return nil
}
