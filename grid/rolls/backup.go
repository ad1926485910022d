// SPDX-License-Identifier: MIT

package rolls

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A File of a hub's folder of rolls, by its name in it.
type File struct {
	Name string
	Text []byte
}

// Backup returns what another hub needs to take over: the audit log with the documents that
// operators signed, the packages that harmed a node, and the rolls that are over, with the
// digests of their packages. A roll that is not over is left out, because its orders and its
// clock would be old ones: without orders its nodes revert the update.
func (h *Hub) Backup() (files []File, packages []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, why := range []error{h.journal.why, h.harmed.why} {
		if why != nil {
			return nil, nil, why
		}
	}
	text := make([]byte, h.journal.size)
	if _, err := h.journal.file.ReadAt(text, 0); err != nil && len(text) > 0 {
		return nil, nil, fmt.Errorf("the audit log cannot be read: %w", err)
	}
	files = append(files, File{journalFile, text})
	documents, err := filepath.Glob(filepath.Join(h.dir, documentsDir, "*"))
	if err != nil {
		return nil, nil, err
	}
	for _, path := range append(documents, h.harmed.file) {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // nothing did harm
		}
		if err != nil {
			return nil, nil, err
		}
		name, err := filepath.Rel(h.dir, path)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{filepath.ToSlash(name), text})
	}
	for name, r := range h.rolls {
		if !r.over() {
			continue
		}
		text, err := os.ReadFile(h.path(name))
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{name + extension, text})
		packages = append(packages, r.Spec.digests()...)
	}
	slices.Sort(packages)
	return files, slices.Compact(packages), nil
}

// CheckFolder reports what a hub could not read in a folder of rolls.
func CheckFolder(dir string) error {
	var bad error
	h, err := OpenHub(dir, time.Now, func(_, text string) { bad = errors.Join(bad, errors.New(text)) })
	if err != nil {
		return err
	}
	if h.journal.file != nil {
		defer h.journal.file.Close()
	}
	if len(h.damaged) == 0 && h.journal.why == nil && h.harmed.why == nil {
		return nil
	}
	return bad
}
