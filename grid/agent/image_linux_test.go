// SPDX-License-Identifier: MIT

package agent

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func makeJobDirs(t *testing.T) string {
	dir := t.TempDir()
	for _, d := range jobDirs {
		if err := os.Mkdir(filepath.Join(dir, d.name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func unpackBytes(t *testing.T, image []byte, most uint64) (string, string, error) {
	dir := makeJobDirs(t)
	snapshot, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	return dir, snapshot.Name(), unpackImage(bytes.NewReader(image), snapshot, dir, 0, most)
}

// What a program wrote is the same after an image.
func TestImage(t *testing.T) {
	dir := makeJobDirs(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at("job/file"), []byte("text"), 0o640),
		os.Link(at("job/file"), at("job/link")),
		os.Symlink("/job/file", at("tmp/symlink")),
		os.MkdirAll(at("shm/a/b"), 0o755),
		os.WriteFile(at("shm/a/b/empty"), nil, 0o600),
		os.Chmod(at("shm/a"), 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(at("shm/a"), 0o755)
	snapshot, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	snapshot.WriteString("registers")
	var image bytes.Buffer
	if err := packImage(&image, snapshot, dir); err != nil {
		t.Fatal(err)
	}
	to, saved, err := unpackBytes(t, image.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(to, "shm/a"), 0o755)
	if b, _ := os.ReadFile(saved); string(b) != "registers" {
		t.Errorf("the snapshot is %q", b)
	}
	var st, link unix.Stat_t
	unix.Stat(filepath.Join(to, "job/file"), &st)
	unix.Stat(filepath.Join(to, "job/link"), &link)
	if st.Ino != link.Ino || st.Mode&0o777 != 0o640 || st.Size != 4 {
		t.Errorf("%+v, its link %+v", st, link)
	}
	if name, _ := os.Readlink(filepath.Join(to, "tmp/symlink")); name != "/job/file" {
		t.Errorf("the link leads to %q", name)
	}
	if info, err := os.Stat(filepath.Join(to, "shm/a")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	if _, _, err := unpackBytes(t, image.Bytes(), 3); err == nil || !strings.Contains(err.Error(), "more disk") {
		t.Errorf("more than a program may have: %v", err)
	}
	if _, _, err := unpackBytes(t, image.Bytes()[:image.Len()-1500], 0); err == nil {
		t.Error("an image without its end is taken")
	}
}

// An image makes nothing outside of the program's folders, and no device.
func TestHostileImages(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, list := range map[string][]tar.Header{
		"no snapshot":             {{Name: "job/file", Typeflag: tar.TypeReg}},
		"a place of its own":      {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: "other/file", Typeflag: tar.TypeReg}},
		"the folder above":        {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: "job/../../outside", Typeflag: tar.TypeReg}},
		"a path from the root":    {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: outside, Typeflag: tar.TypeReg}},
		"a path through a link":   {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: "job/up", Typeflag: tar.TypeSymlink, Linkname: filepath.Dir(outside)}, {Name: "job/up/outside", Typeflag: tar.TypeReg}},
		"a link to a file above":  {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: "job/file", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}},
		"a device":                {{Name: imageSnapshot, Typeflag: tar.TypeReg}, {Name: "job/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"a snapshot that is none": {{Name: imageSnapshot, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range list {
			h.Mode = 0o644
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(name, err)
			}
		}
		w.Close()
		_, _, err := unpackBytes(t, b.Bytes(), 0)
		if err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if _, failed := os.Lstat(outside); failed == nil {
			t.Fatalf("%s: a file outside was made", name)
		}
	}
}

// What a program does to its folders while they are packed leads to no file outside of them, and
// what no node could make again is refused before the program moves.
func TestHostileFolders(t *testing.T) {
	dir, outside := makeJobDirs(t), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "job/file"), []byte("public"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	info, err := root.Lstat("job/file")
	if err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string]func(name string) error{
		"a link to a file outside": func(name string) error { return os.Symlink(filepath.Join(outside, "secret"), name) },
		"a link to a file inside":  func(name string) error { return os.Symlink("other", name) },
		"another file":             func(name string) error { return os.WriteFile(name, []byte("secret"), 0o600) },
		"a named pipe":             func(name string) error { return unix.Mkfifo(name, 0o600) },
	} {
		p := &packer{tar.NewWriter(io.Discard), root, map[uint64]string{}}
		// The other file keeps the inode of the first in use.
		os.Rename(filepath.Join(dir, "job/file"), filepath.Join(dir, "job/other"))
		if err := replace(filepath.Join(dir, "job/file")); err != nil {
			t.Fatal(err)
		}
		if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
			t.Fatal(err)
		}
		if err := p.copyFile("job/file", info); name != "a link to a file inside" && err == nil {
			t.Errorf("%s was read", name)
		}
		os.Remove(filepath.Join(dir, "job/file"))
		os.Rename(filepath.Join(dir, "job/other"), filepath.Join(dir, "job/file"))
	}
	os.Remove(filepath.Join(dir, "tmp"))
	if err := os.Symlink(outside, filepath.Join(dir, "tmp")); err != nil {
		t.Fatal(err)
	}
	snapshot, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	var image bytes.Buffer
	if err := packImage(&image, snapshot, dir); err == nil && bytes.Contains(image.Bytes(), []byte("secret")) {
		t.Error("a folder that was replaced by a link was read")
	}
	if err := unix.Mkfifo(filepath.Join(dir, "job/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := packImage(&image, snapshot, dir); err == nil || !strings.Contains(err.Error(), "job/pipe is neither a file, a folder nor a link") {
		t.Errorf("a named pipe: %v", err)
	}
}
