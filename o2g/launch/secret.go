// SPDX-License-Identifier: MIT

package launch

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// NewSecret returns the secret by which the ranks of one job authenticate each
// other.
func NewSecret() string {
	b := make([]byte, sha256.Size)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// StepSecret returns the secret of a job step whose ranks a batch system started,
// where no launcher distributes one. It is derived from the user's key, in a
// folder that all hosts of the step share, and from the step's name.
func StepSecret(dir, step string) (string, error) {
	key, err := userKey(dir)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "o2g step %s", step)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// userKey reads dir/o2g.key. The first process creates it, atomically.
func userKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, "o2g.key")
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fresh, err := os.CreateTemp(dir, "o2g.key.*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(fresh.Name())
	b := make([]byte, sha256.Size)
	rand.Read(b)
	_, err = fresh.Write(b)
	if err := errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return nil, err
	}
	// The link fails if another process was first; then that process's key is used.
	if err := os.Link(fresh.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is accessible to other users, so it is not a secret: delete it, or chmod 600 if you trust them", path)
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) != sha256.Size {
		err = fmt.Errorf("%s is damaged (%d bytes): delete it", path, len(key))
	}
	return key, err
}
