// SPDX-License-Identifier: MIT

package rolls

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"skep/internal/atomicfile"
)

const (
	harmedFile = "harmed" // in the hub's folder of rolls
	harmedMax  = 4096
)

// harmed lists packages that harmed a node in a roll whose record is gone: digests of
// their files and of their contents, and which node and how. So neither forgetting a roll,
// nor another one of the same update, nor new signatures let a package reach a second node.
type harmed struct {
	file     string
	packages map[string]string
	why      error // the file cannot be read
}

func openHarmed(dir string) *harmed {
	l := &harmed{file: filepath.Join(dir, harmedFile), packages: map[string]string{}}
	text, err := os.ReadFile(l.file)
	if err == nil {
		err = json.Unmarshal(text, &l.packages)
	}
	if err == nil && l.packages == nil { // the text null
		err = errors.New("it is no list")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.why = fmt.Errorf("%s, the list of packages that harmed a node, is damaged: restore it and restart the hub: %w", l.file, err)
	}
	return l
}

// keep adds the packages of a roll that harmed a node, before its record is removed or
// replaced. r may be nil.
func (l *harmed) keep(r *record) error {
	if r == nil || r.Roll == nil || r.Roll.Harmed == "" {
		return nil
	}
	if l.why != nil {
		return l.why
	}
	next := maps.Clone(l.packages)
	for _, digest := range r.marks() {
		next[digest] = r.Roll.Harmed
	}
	if len(next) > harmedMax {
		return fmt.Errorf("%s has %d digests of packages that harmed a node, and has room for %d: move it away and restart the hub to begin another list", l.file, len(l.packages), harmedMax)
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = atomicfile.Write(l.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("that a package harmed a node cannot be stored: %w", err)
	}
	l.packages = next
	return nil
}

// checkHarm refuses packages that harmed a node in an earlier roll. The lock is held.
func (h *Hub) checkHarm(of *record) error {
	if h.harmed.why != nil {
		return h.harmed.why
	}
	for _, mark := range of.marks() {
		why := h.harmed.packages[mark]
		for _, r := range h.rolls {
			if r.Roll.Harmed != "" && slices.Contains(r.marks(), mark) {
				why = r.Roll.Harmed
			}
		}
		if why != "" {
			return fmt.Errorf("this package of %s harmed a node, and the hub gives it to no other (%s): mend the fix, then build and sign it anew", of.Spec.Name, why)
		}
	}
	return nil
}
