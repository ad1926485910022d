// SPDX-License-Identifier: MIT

package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An item is a file of an archive.
type item struct {
	name string // in the archive
	path string
	mode fs.FileMode // type and permissions, which do not depend on a umask
	link string
}

// listItems lists all files below dir in the order of their names.
func listItems(dir, prefix string) ([]item, error) {
	var all []item
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		i := item{name: filepath.ToSlash(filepath.Join(prefix, name)), path: path, mode: 0o644}
		if info.Mode()&fs.ModeSymlink != 0 {
			i.mode = fs.ModeSymlink | 0o777
			i.link, err = os.Readlink(path)
		} else if info.Mode()&0o100 != 0 {
			i.mode = 0o755
		}
		all = append(all, i)
		return err
	})
	slices.SortFunc(all, func(a, b item) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all, err
}

// writeTar writes items as files of root with one time, so that the bytes depend
// only on names, modes and contents.
func writeTar(out io.Writer, items []item, when time.Time) error {
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	for _, i := range items {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: i.name, Mode: int64(i.mode.Perm()), ModTime: when, Format: tar.FormatUSTAR}
		text := []byte(nil)
		if i.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, i.link
		} else if text, err = os.ReadFile(i.path); err != nil {
			return err
		}
		h.Size = int64(len(text))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return packed.Close()
}

// writeZip does the same as writeTar for Windows, which has no links.
func writeZip(out io.Writer, items []item, when time.Time) error {
	w := zip.NewWriter(out)
	for _, i := range items {
		h := &zip.FileHeader{Name: i.name, Method: zip.Deflate, Modified: when.UTC()}
		h.SetMode(i.mode.Perm())
		to, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(i.path)
		if err != nil {
			return err
		}
		if _, err := to.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}
