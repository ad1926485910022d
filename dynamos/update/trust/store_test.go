// SPDX-License-Identifier: MIT

//go:build linux

package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	plain, locked := filepath.Join(dir, "plain"), filepath.Join(dir, "locked")
	k, err := CreateKey(plain, "alice@lab", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateKey(plain, "alice", nil); err == nil {
		t.Error("a key was replaced")
	}
	if _, err := CreateKey(filepath.Join(dir, "x"), "a\nb", nil); err == nil {
		t.Error("a name of two lines was taken")
	}
	if _, err := CreateKey(locked, "bob", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{plain, locked} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	never := func() ([]byte, error) { t.Error("asked for the passphrase of a plain key"); return nil, nil }
	if s, err := OpenSigner(plain, never); err != nil || s.ID() != k.ID() {
		t.Error(err)
	}
	if _, err := OpenSigner(locked, func() ([]byte, error) { return []byte("wrong"), nil }); err == nil {
		t.Error("a wrong passphrase opened a key")
	}
	if _, err := OpenSigner(locked, func() ([]byte, error) { return nil, errors.New("no terminal") }); err == nil || err.Error() != "no terminal" {
		t.Error(err)
	}
	if _, err := OpenSigner(locked, func() ([]byte, error) { return []byte("secret"), nil }); err != nil {
		t.Error(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o610} {
		if err := os.Chmod(plain, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSigner(plain, never); Name(err) != Malformed || !strings.Contains(err.Error(), "must not be accessible to group or others") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := OpenSigner(plain+".pub", never); err == nil {
		t.Error("a public key is a signer")
	}
	if _, err := ReadKey(locked); err == nil {
		t.Error("a private key is a public one")
	}
}

func TestStoreKeepsTheState(t *testing.T) {
	store := &Store{Dir: filepath.Join(t.TempDir(), "trust")}
	if s, err := store.Load(); err != nil || s.Pinned != "" {
		t.Errorf("a node without keys: %+v, %v", s, err)
	}
	k := fleetKeys()
	pin := func(s State) (State, error) {
		s, _, err := s.Pin(signedText(k.Encode(), alice, bob), start, false)
		return s, err
	}
	if err := store.Change(func(s State) (State, error) { return s, errors.New("no") }); err == nil {
		t.Error("a change that failed")
	}
	if exists, err := store.Exists(); exists || err != nil {
		t.Errorf("a change that failed left a folder: %v", err)
	}
	if err := store.Change(pin); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 { // at the same time: no change is lost
		all.Go(func() {
			if err := store.Change(func(s State) (State, error) { return s.Block(strings.Repeat(string(rune('a'+n)), 64), "x"), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, err := store.Load()
	if err != nil || len(s.Blocked) != 8 {
		t.Errorf("%d of 8 changes, %v", len(s.Blocked), err)
	}
	if left, err := os.ReadDir(filepath.Dir(store.Dir)); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// A damaged or lost state is never taken for that of a node without keys.
func TestDamagedStateIsRefused(t *testing.T) {
	k := fleetKeys()
	for name, spoil := range map[string]func(dir, file string) error{
		"a lost file":                   func(_, file string) error { return os.Remove(file) },
		"an empty file":                 func(_, file string) error { return os.Truncate(file, 0) },
		"half a file":                   func(_, file string) error { return os.Truncate(file, 300) },
		"an empty object":               func(_, file string) error { return os.WriteFile(file, []byte("{}"), 0o600) },
		"a later revision":              func(_, file string) error { return replaceIn(file, `"revision": 1`, `"revision": 2`) },
		"a field that is unknown":       func(_, file string) error { return replaceIn(file, `"revision"`, `"x": 1, "revision"`) },
		"no marks":                      func(_, file string) error { return replaceIn(file, `"lines": {}`, `"lines": null`) },
		"other keys":                    func(_, file string) error { return replaceIn(file, `threshold 2`, `threshold x`) },
		"a folder that others may edit": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
	} {
		store := &Store{Dir: filepath.Join(t.TempDir(), "trust")}
		err := store.Change(func(s State) (State, error) {
			s, _, err := s.Pin(signedText(k.Encode(), alice, bob), start, false)
			return s, err
		})
		if err == nil {
			err = spoil(store.Dir, filepath.Join(store.Dir, stateFile))
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if s, err := store.Load(); Name(err) != Malformed {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if err := store.Change(func(s State) (State, error) { return s, nil }); Name(err) != Malformed {
			t.Errorf("%s: changed: %v", name, err)
		}
	}
}

func replaceIn(file, from, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	next := strings.Replace(string(text), from, to, 1)
	if next == string(text) {
		return errors.New("there is nothing to replace")
	}
	return os.WriteFile(file, []byte(next), 0o600)
}
