// SPDX-License-Identifier: MIT

package update

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"skep/internal/atomicfile"
)

// bootFile exists from before updates are restored until the machine has run with
// them for a while.
const bootFile = ".boot.json"

// After bootsMax failed boots no update is restored.
const bootsMax = 2

// A Boot counts the boots that ended early after the updates were restored.
type Boot struct {
	ID     string
	Failed int
	Names  []string
}

// BeginBoot records that updates are about to be restored in this boot. failed is the
// number of boots before it that ended early; from bootsMax on no update may be restored.
func (k *Keep) BeginBoot(id string, names []string) (failed int, err error) {
	var b Boot
	text, err := os.ReadFile(filepath.Join(k.Dir, bootFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	case json.Unmarshal(text, &b) != nil:
		b.Failed = bootsMax // the file is damaged: the safe choice
	case b.ID != id:
		b.Failed++
	}
	if b.Failed >= bootsMax {
		return b.Failed, nil
	}
	b.ID, b.Names = id, names
	if text, err = json.Marshal(b); err == nil {
		err = atomicfile.Write(filepath.Join(k.Dir, bootFile), text, 0o600)
	}
	return b.Failed, err
}

// EndBoot records that the machine ran well, or was shut down in the ordinary way.
func (k *Keep) EndBoot() error {
	if err := atomicfile.Remove(filepath.Join(k.Dir, bootFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
