// SPDX-License-Identifier: MIT

package agent

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The image of a movable program is a tar file: bee's snapshot in parts, all with this name, then
// the folders that the program can write to.
const imageSnapshot = "snapshot"

// jobDirs are the folders of a movable program, and where it sees them on every node.
var jobDirs = []struct{ name, guest string }{{"job", jobDir}, {"tmp", "/tmp"}, {"shm", "/dev/shm"}}

const jobDir = "/job"

// programPlace is the name of a movable program's file, also for the program: it may start itself
// after a move, and it may have read the name before.
const programPlace = "/program"

const unbounded = 1 << 62

// errLarge says why an image was not made.
var errLarge = errors.New("its memory and files need more disk than its limits, or half of the free disk, allow: ask for more with --disk")

// A capped writer fails with errLarge before more than left bytes are written.
type capped struct {
	w    io.Writer
	left uint64
}

func (c *capped) Write(p []byte) (int, error) {
	if uint64(len(p)) > c.left {
		return 0, errLarge
	}
	c.left -= uint64(len(p))
	return c.w.Write(p)
}

// packSnapshot writes what bee writes to a pipe, in parts, because nobody knows how much that will be. It
// calls idle when bee writes nothing more: it may wait for an answer to what it wrote.
func packSnapshot(t *tar.Writer, r *os.File, idle func() error) (n uint64, err error) {
	buf := make([]byte, 1<<20)
	for {
		k, err := r.Read(buf)
		for k > 0 && k < len(buf) && err == nil && pipeBytes(r) > 0 {
			var more int
			more, err = r.Read(buf[k:])
			k += more
		}
		if k > 0 {
			if err := t.WriteHeader(&tar.Header{Name: imageSnapshot, Mode: 0o600, Size: int64(k)}); err != nil {
				return n, err
			}
			if _, err := t.Write(buf[:k]); err != nil {
				return n, err
			}
			n += uint64(k)
		}
		if err == io.EOF {
			return n, nil
		}
		if err == nil && pipeBytes(r) == 0 {
			err = errors.Join(t.Flush(), idle())
		}
		if err != nil {
			return n, err
		}
	}
}

// packFolders writes the rest of an image. The program stands still.
func packFolders(t *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	p := &packer{t, root, map[uint64]string{}}
	for _, d := range jobDirs {
		err := fs.WalkDir(root.FS(), d.name, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return p.add(name)
		})
		if err != nil {
			return fmt.Errorf("its files cannot be packed: %w", err)
		}
	}
	return t.Close()
}

// A packer reads the folders of a program, which may be hostile: bee stands in its own memory,
// so that it stands still is no more than its word. So nothing outside of the root is read, even
// if a name becomes a link between two looks.
type packer struct {
	tar   *tar.Writer
	root  *os.Root
	links map[uint64]string // by inode
}

func (p *packer) add(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	target := ""
	switch info.Mode().Type() {
	case 0, fs.ModeDir:
	case fs.ModeSymlink:
		if target, err = p.root.Readlink(name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a link", name)
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Format, h.Uname, h.Gname = name, tar.FormatPAX, "", ""
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no inode", name)
	}
	if first, ok := p.links[st.Ino]; ok && st.Nlink > 1 && info.Mode().IsRegular() {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		return p.tar.WriteHeader(h)
	}
	p.links[st.Ino] = name
	if err := p.tar.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return p.copyFile(name, info)
}

// copyFile writes the content of a file, if it still is the one that was looked at.
func (p *packer) copyFile(name string, info fs.FileInfo) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, info) {
		return fmt.Errorf("%s was replaced meanwhile", name)
	}
	_, err = io.CopyN(p.tar, f, info.Size())
	return err
}

// An unpacker makes the files of an image, which is not trusted: nothing is made outside
// of its root, and no device.
type unpacker struct {
	root *os.Root
	own  int    // user of the files; 0: this process's
	left uint64 // bytes that they may have
	dirs []*tar.Header
}

// unpackImage writes the files of an image to dir, for the user own if that is not 0, and the
// snapshot to snapshot; between the two it calls taken. disk bounds the bytes of the files (0: nothing
// does), and most those of the snapshot.
func unpackImage(r io.Reader, snapshot io.Writer, taken func() error, dir string, own int, disk, most uint64) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacker{root: root, own: own, left: cmp.Or(disk, unbounded)}
	to := &capped{snapshot, most}
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Name != imageSnapshot {
		return errors.New("the image of the program is damaged")
	}
	for ; err == nil && h.Name == imageSnapshot && h.Typeflag == tar.TypeReg; h, err = t.Next() {
		if _, err := io.Copy(to, t); err != nil {
			return fmt.Errorf("the program's snapshot cannot be stored: %w", err)
		}
	}
	if err == nil || err == io.EOF {
		if failed := taken(); failed != nil {
			return failed
		}
	}
	for ; ; h, err = t.Next() {
		if err == io.EOF {
			return u.finish()
		}
		if err == nil {
			err = u.make(h, t)
		}
		if err != nil {
			return fmt.Errorf("the program's files cannot be made: %w", err)
		}
	}
}

func (u *unpacker) make(h *tar.Header, r io.Reader) error {
	name := path.Clean(h.Name)
	top, _, _ := strings.Cut(name, "/")
	if top != "job" && top != "tmp" && top != "shm" {
		return fmt.Errorf("%q has no place", h.Name)
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if err = u.root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
		u.dirs = append(u.dirs, h)
		return err
	case tar.TypeReg:
		err = u.makeFile(name, h, r)
	case tar.TypeSymlink:
		if err = u.root.Symlink(h.Linkname, name); err == nil && u.own != 0 {
			err = u.root.Lchown(name, u.own, u.own)
		}
		return err
	case tar.TypeLink:
		return u.root.Link(path.Clean(h.Linkname), name)
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a link", name)
	}
	if err != nil {
		return err
	}
	return u.setOwner(name, h)
}

func (u *unpacker) makeFile(name string, h *tar.Header, r io.Reader) error {
	if h.Size < 0 || uint64(h.Size) > u.left {
		return fmt.Errorf("they need more disk than a program may use here")
	}
	u.left -= uint64(h.Size)
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if u.isPlace(name, err) {
		f, err = u.root.OpenFile(name, os.O_WRONLY, 0)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// isPlace reports whether a file could not be made because its guard has made an empty one there, on which
// something of the agent's is mounted: so it is if the agent's folder is below /tmp.
func (u *unpacker) isPlace(name string, err error) bool {
	if !errors.Is(err, fs.ErrExist) {
		return false
	}
	info, err := u.root.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

func (u *unpacker) setOwner(name string, h *tar.Header) error {
	if u.own != 0 {
		if err := u.root.Lchown(name, u.own, u.own); err != nil {
			return err
		}
	}
	if err := u.root.Chmod(name, h.FileInfo().Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// finish gives folders their rights, the inner ones first, because they may be read-only.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		if err := u.setOwner(path.Clean(u.dirs[i].Name), u.dirs[i]); err != nil {
			return fmt.Errorf("the program's folders cannot be made: %w", err)
		}
	}
	return nil
}
