// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"skep/internal/atomicfile"
)

// A Store keeps a State in a folder that only its owner may change.
type Store struct{ Dir string }

// stateFile holds the whole state, so that keys and marks change together.
const stateFile = "state.json"

// Exists reports whether this node has a state. A folder without its file is an error:
// the marks against replays are lost.
func (s *Store) Exists() (bool, error) {
	info, err := os.Lstat(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || owner.Uid != 0 && int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return false, refusef(Malformed, "%s is not a folder that root alone may change: the keys in it are not trusted", s.Dir)
	}
	return true, nil
}

// Load returns the state, or the zero State if there is none.
func (s *Store) Load() (State, error) {
	exists, err := s.Exists()
	if err != nil || !exists {
		return State{}, err
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, refusef(Malformed, "%s has no %s: what was seen is lost, and replays could not be noticed; as root remove the folder and pin the keys again", s.Dir, stateFile)
	}
	if err != nil {
		return State{}, err
	}
	return ParseState(text)
}

// Change replaces the state by what do returns, under a lock, and returns when the new
// state is on disk. If do or the disk fails, the state stays.
func (s *Store) Change(do func(State) (State, error)) error {
	exists, err := s.Exists()
	if err != nil {
		return err
	}
	if !exists {
		return s.create(do)
	}
	lock, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("%s: %w", s.Dir, err)
	}
	old, err := s.Load()
	if err != nil {
		return err
	}
	return s.write(s.Dir, old, do)
}

func (s *Store) write(dir string, old State, do func(State) (State, error)) error {
	next, err := do(old)
	if err != nil {
		return err
	}
	text, err := next.Encode()
	if err == nil {
		_, err = ParseState(text)
	}
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, stateFile), text, 0o644)
}

// create makes the folder and its file in one step, because a folder without the file
// counts as damaged.
func (s *Store) create(do func(State) (State, error)) error {
	dir, err := os.MkdirTemp(filepath.Dir(s.Dir), ".skep-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := s.write(dir, State{}, do); err != nil {
		return err
	}
	return atomicfile.Rename(dir, s.Dir)
}
