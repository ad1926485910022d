// SPDX-License-Identifier: MIT

// Package mirror keeps a copy of the tree and of its build folder, so that the user's own
// files are not changed.
package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// notCopied are the parts of build/ that no quick suite needs: foreign MPIs, machines, and
// the folders of Wine and of other runs of mutants, whose names begin so: copies of copies
// would double with each run. The parts in linked are not copied either.
var notCopied = map[string]bool{
	"kernel": true, "kmod": true, "mpi": true, "update": true, "lab": true,
	"fuzz": true,
}

// linked are large parts of build/ that quick suites only read, if they are there: kernels
// and modules. The copy has links to them.
var linked = []string{"kernel", "kmod"}

// sourceFiles lists what git would commit; without git, all but build/.
func sourceFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard", "-z")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		var list []string
		for _, name := range strings.Split(string(out), "\x00") {
			if _, err := os.Lstat(filepath.Join(root, name)); name != "" && err == nil {
				list = append(list, name)
			}
		}
		sort.Strings(list)
		return list, nil
	}
	return filesBelow(root, ".", func(name string) bool { return name == "build" || name == ".git" })
}

// filesBelow lists files and links of a folder; skip names what is left out.
func filesBelow(root, folder string, skip func(name string) bool) ([]string, error) {
	var list []string
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && skip(name):
			return filepath.SkipDir
		case d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0:
			list = append(list, name)
		}
		return nil
	})
	return list, err
}

// Tree updates the copy: the sources and the build folder, with their times, so that make
// rebuilds nothing.
func Tree(root, copy string) ([]string, error) {
	sources, err := sourceFiles(root)
	if err != nil {
		return nil, err
	}
	built, err := filesBelow(root, "build", func(name string) bool {
		dir, base := filepath.Split(name)
		return dir == "build/" && (notCopied[base] || strings.HasPrefix(base, "wine") || strings.HasPrefix(base, "mutants"))
	})
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, name := range append(append([]string{}, sources...), built...) {
		wanted[name] = true
		if err := mirrorFile(filepath.Join(root, name), filepath.Join(copy, name)); err != nil {
			return nil, err
		}
	}
	links, err := linkParts(root, copy)
	if err != nil {
		return nil, err
	}
	for _, name := range links {
		wanted[name] = true
	}
	there, err := filesBelow(copy, ".", func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	for _, name := range there {
		if !wanted[name] {
			if err := os.Remove(filepath.Join(copy, name)); err != nil {
				return nil, err
			}
		}
	}
	return sources, nil
}

// linkParts makes links to the parts of the build folder that are linked, and returns their
// names in the copy.
func linkParts(root, copy string) (names []string, err error) {
	top, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	for _, part := range linked {
		name := filepath.Join("build", part)
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			continue
		}
		to := filepath.Join(copy, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := os.Symlink(filepath.Join(top, name), to); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// mirrorFile copies a file if size, time or type differ.
func mirrorFile(from, to string) error {
	a, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	b, err := os.Lstat(to)
	if err == nil && a.Mode() == b.Mode() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if a.Mode()&fs.ModeSymlink != 0 {
		return mirrorLink(from, to)
	}
	part := to + ".part"
	if err := File(from, part, a.Mode().Perm()); err != nil {
		return err
	}
	if err := os.Chtimes(part, a.ModTime(), a.ModTime()); err != nil {
		return err
	}
	return os.Rename(part, to)
}

func mirrorLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	os.Remove(to)
	return os.Symlink(target, to)
}

// File copies one file.
func File(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// Digest returns the digest of all sources except documents. Results are valid only for a
// tree with the same digest.
func Digest(root string, sources []string) (string, error) {
	all := sha256.New()
	for _, name := range sources {
		if strings.HasSuffix(name, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%x  %s\n", sha256.Sum256(text), name)
	}
	return hex.EncodeToString(all.Sum(nil))[:16], nil
}
