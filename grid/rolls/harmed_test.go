// SPDX-License-Identifier: MIT

package rolls

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update/roll"
)

// A list of harmful packages that is damaged is not replaced, since an operator may restore it.
func TestRollHarmListIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, harmedFile)
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	of := &record{Roll: &roll.Hub{Harmed: "a: it locked up"}}
	if err := openHarmed(dir).keep(of); err == nil || !strings.Contains(err.Error(), "is damaged: restore it") {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{" {
		t.Errorf("%q, %v", text, err)
	}
}
