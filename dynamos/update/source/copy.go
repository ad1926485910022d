// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// copy makes a folder for this work alone, with a tree that can be patched.
func (w *Work) copy(ctx context.Context) (*Tree, error) {
	var err error
	if w.Dir, err = os.MkdirTemp(filepath.Dir(w.tree.Dir), workPrefix); err != nil {
		return nil, err
	}
	copied := *w.tree
	copied.Dir = filepath.Join(w.Dir, "tree")
	if w.changesUnitsOnly() {
		err = w.tree.linkFolders(ctx, copied.Dir, w.Units)
	} else {
		err = w.tree.linkTree(ctx, copied.Dir, w.Units)
	}
	if err != nil {
		return nil, err
	}
	return &copied, copied.setRelease()
}

// changesUnitsOnly tells whether nothing that the units include changes: then folders without
// units are the same before and after the patch.
func (w *Work) changesUnitsOnly() bool {
	return w.parts == nil || slices.Equal(slices.Sorted(slices.Values(w.Files)), w.Units)
}

// setRelease has the source call itself as the image does: its package was made
// with a name of the distribution's. The file is a link to the tree's.
func (t *Tree) setRelease() error {
	if t.Kernel.Release == "" {
		return nil
	}
	for name, text := range map[string]string{
		"include/generated/utsrelease.h": fmt.Sprintf("#define UTS_RELEASE \"%s\"\n", t.Kernel.Release),
		"include/config/kernel.release":  t.Kernel.Release + "\n",
	} {
		path := filepath.Join(t.Dir, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const workPrefix = "work-"

// removeStale removes what works left that were killed over a day ago.
func removeStale(dir string) {
	old, err := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	if err != nil {
		return
	}
	for _, w := range old {
		if info, err := os.Stat(w); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(w)
		}
	}
}

// linkTree copies a tree: what came with the source as hard links, because patch
// replaces what it changes; what make wrote as files of their own, because make
// writes into them. Folders of drivers that no unit lies in keep their sources.
// Other processes may ask the tree's make meanwhile: their temporary files stay out.
func (t *Tree) linkTree(ctx context.Context, to string, units []string) error {
	ready, err := os.Stat(filepath.Join(t.Dir, ".config"))
	if err != nil {
		return err
	}
	near := map[string]bool{}
	for _, u := range units {
		near[path.Dir(u)] = true
	}
	return filepath.WalkDir(t.Dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, err := filepath.Rel(t.Dir, from)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		if isTemporary(d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return os.MkdirAll(dest, 0o755)
		}
		if isSelfContained(rel) && path.Ext(rel) == ".c" && !near[path.Dir(rel)] {
			return nil
		}
		return t.linkFile(from, dest, d, ready.ModTime())
	})
}

// linkFolders copies a tree as linkTree does, but only the folders of units and of what make
// derives from the configuration: links lead to all others, in which nothing is written. A tree
// has about 4,000 folders and 70,000 files.
func (t *Tree) linkFolders(ctx context.Context, to string, units []string) error {
	ready, err := os.Stat(filepath.Join(t.Dir, ".config"))
	if err != nil {
		return err
	}
	own := map[string]bool{".": true, "include": true, "include/generated": true, "include/config": true}
	for _, u := range units {
		for dir := path.Dir(u); !own[dir]; dir = path.Dir(dir) {
			own[dir] = true
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(own)) { // a folder comes before those in it
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := t.linkFolder(dir, to, own, ready.ModTime()); err != nil {
			return err
		}
	}
	return nil
}

// linkFolder makes one folder of a copy, without the folders in it that are own.
func (t *Tree) linkFolder(dir, to string, own map[string]bool, ready time.Time) error {
	list, err := os.ReadDir(filepath.Join(t.Dir, dir))
	if errors.Is(err, fs.ErrNotExist) && path.Dir(dir) == "include" {
		return nil // not derived
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
		return err
	}
	for _, d := range list {
		rel := path.Join(dir, d.Name())
		from, dest := filepath.Join(t.Dir, rel), filepath.Join(to, rel)
		switch {
		case isTemporary(d.Name()) || own[rel] || dir == "include/config" && isEmpty(d):
		case d.IsDir():
			err = os.Symlink(from, dest)
		default:
			err = t.linkFile(from, dest, d, ready)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isEmpty are the files of include/config that only tell make by their time when an option
// changed. A copy has no objects that could be older.
func isEmpty(d fs.DirEntry) bool {
	info, err := d.Info()
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// isTemporary are files that vanish any time: those of make's tries of the compiler
// (TMPOUT in the kernel's scripts/Makefile.compiler), and lists of modules' sources,
// which no copy reads.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".tmp_") || strings.HasPrefix(name, modulesFile)
}

// isSelfContained are folders whose sources only their own folder includes.
func isSelfContained(rel string) bool {
	return strings.HasPrefix(rel, "drivers/") || strings.HasPrefix(rel, "sound/")
}

func (t *Tree) linkFile(from, to string, d fs.DirEntry, made time.Time) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case info.Size() == 0 || info.ModTime().Before(made):
		return os.Link(from, to)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, text, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
