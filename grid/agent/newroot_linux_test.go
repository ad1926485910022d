// SPDX-License-Identifier: MIT

package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// All of a new root is read-only and has no devices, but for what the owner allowed.
func TestAttributesOfANewRoot(t *testing.T) {
	const ro, suid, dev = unix.MOUNT_ATTR_RDONLY, unix.MOUNT_ATTR_NOSUID, unix.MOUNT_ATTR_NODEV
	r := &newRoot{"/new", ro | suid | dev}
	b := &bounds{Write: []string{"/data", "/dev/shm"}, Read: []string{"/dev/dri"}}
	for path, want := range map[string]uint64{"/usr": ro | suid | dev, "/data": suid | dev, "/data/below": ro | suid | dev,
		"/dev/dri": ro | suid, "/dev/shm": suid, "/devices": ro | suid | dev} {
		if got := r.mountAttr(b, path); got != want {
			t.Errorf("%s: %#x, want %#x", path, got, want)
		}
	}
}

// What cannot be taken into a new root is named.
func TestPartsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	r := &newRoot{at: dir}
	none := dir + "/none"
	for name, do := range map[string]func() error{
		"a clone":    func() error { _, err := cloneMounts(none, 0); return err },
		"own":        func() error { _, err := r.takeOwn(&bounds{Write: []string{none}, Hide: []string{dir}}); return err },
		"a tmpfs":    func() error { return mountMemory(none, "") },
		"no link":    func() error { return r.put(part{path: none, fd: -1}) },
		"a wrong fd": func() error { return r.put(part{path: "/dir", fd: 1 << 20, dir: true}) },
	} {
		if err := do(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, err := cloneMounts(none, 0)
	checkText(t, "a clone", err, none+" cannot be taken into a new root: ")
	checkText(t, "a tmpfs", mountMemory(none, ""), "tmpfs cannot be mounted: ")
	checkText(t, "a wrong fd", r.put(part{path: "/dir", fd: 1 << 20, dir: true}), "/dir cannot be mounted: ")
	if own, err := r.takeOwn(&bounds{Write: []string{none}, Hide: []string{dir + "/other"}}); err != nil || own != nil {
		t.Errorf("what is not hidden was taken: %v, %v", own, err)
	}
}

// Each part gets a place of its kind, and a link is made again.
func TestPlacesInANewRoot(t *testing.T) {
	dir := t.TempDir()
	if err := makePlace(dir+"/a/folder", true); err != nil {
		t.Fatal(err)
	}
	if err := makePlace(dir+"/b/file", false); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Stat(dir + "/a/folder")
	file, err2 := os.Stat(dir + "/b/file")
	if err != nil || err2 != nil || !folder.IsDir() || !file.Mode().IsRegular() || file.Size() != 0 {
		t.Errorf("%v, %v, %v, %v", folder, file, err, err2)
	}
	for _, directory := range []bool{true, false} {
		if err := makePlace(dir+"/b/file/below", directory); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("below a file: %v", err)
		}
	}
	if err := makePlace(dir+"/a/folder", false); err == nil {
		t.Error("a file in place of a folder")
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("usr/bin", link); err != nil {
		t.Fatal(err)
	}
	r := &newRoot{at: filepath.Join(dir, "new")}
	if err := os.MkdirAll(r.at+dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.put(part{path: link, fd: -1}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(r.at + link); to != "usr/bin" || err != nil {
		t.Errorf("%q, %v", to, err)
	}
}
