// SPDX-License-Identifier: MIT

package rolls

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/roll"
)

// restore writes a backup into a new folder, and checks it there.
func (f *fleet) restore() (dir string, names []string, packages []string) {
	f.t.Helper()
	files, packages, err := f.hub.Backup()
	if err != nil {
		f.t.Fatal(err)
	}
	dir = filepath.Join(f.t.TempDir(), "rolls")
	for _, v := range files {
		path := filepath.Join(dir, v.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, v.Text, 0o600); err != nil {
			f.t.Fatal(err)
		}
		names = append(names, v.Name)
	}
	if err := CheckFolder(dir); err != nil {
		f.t.Error(err)
	}
	return dir, names, packages
}

// A backup has the log, what did harm, and the rolls that are over. A hub that gets it goes on
// with the log, and its nodes obey it.
func TestBackupOfRolls(t *testing.T) {
	f := newFleet(t, "a")
	if _, names, packages := f.restore(); !slices.Equal(names, []string{journalFile}) || len(packages) > 0 {
		t.Errorf("a new hub: %q, %q", names, packages)
	}
	f.begin(testSpec, "all")
	if _, names, packages := f.restore(); !slices.Equal(names, []string{journalFile}) || len(packages) > 0 {
		t.Errorf("a roll that runs: %q, %q", names, packages)
	}
	f.awaitState(roll.Done)
	want := f.logged()
	dir, names, packages := f.restore()
	if !slices.Equal(names, []string{journalFile, "fix.json"}) || !slices.Equal(packages, []string{testSpec.Package}) {
		t.Errorf("a roll that is over: %q, %q", names, packages)
	}
	if err := os.Rename(filepath.Join(f.dir, "hub"), filepath.Join(f.dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, filepath.Join(f.dir, "hub")); err != nil {
		t.Fatal(err)
	}
	f.open()
	if got := f.logged(); !slices.Equal(got, want) {
		t.Errorf("%q is logged, not %q", got, want)
	}
	next := testSpec
	next.ID, next.Name, next.Package = "two", "other", strings.Repeat("cd", 32)
	f.nodes["a"].k.others = map[string]*fakeKernel{"other": {boot: "1", began: time.Now(), refuse: map[string]error{}}}
	f.begin(next, "all")
	for range 100 {
		f.step()
	}
	if k := f.nodes["a"].k.others["other"]; !slices.Contains(k.did, "load") {
		t.Errorf("the node did %q", k.did)
	}
}

// A damaged folder is neither backed up nor taken.
func TestBackupOfDamagedRolls(t *testing.T) {
	for _, name := range []string{journalFile, harmedFile, "fix" + extension} {
		f := newFleet(t)
		dir := filepath.Join(f.dir, "hub")
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckFolder(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
		f.open()
		if _, _, err := f.hub.Backup(); (err != nil) != (name != "fix"+extension) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
