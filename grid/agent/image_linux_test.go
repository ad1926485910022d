// SPDX-License-Identifier: MIT

package agent

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/internal/uapi"
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

func packBytes(snapshot, dir string) (*bytes.Buffer, error) {
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	go func() {
		io.WriteString(to, snapshot)
		to.Close()
	}()
	if _, err := packSnapshot(w, from, beIdle); err != nil {
		return nil, err
	}
	return &image, packFolders(w, dir)
}

func unpackBytes(t *testing.T, image []byte, most uint64) (string, string, error) {
	dir := makeJobDirs(t)
	snapshot, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	return dir, snapshot.Name(), unpackImage(bytes.NewReader(image), snapshot, func() error { return nil }, dir, 0, most, 2<<20)
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
	registers := strings.Repeat("registers", 200000) // more than one part
	image, err := packBytes(registers, dir)
	if err != nil {
		t.Fatal(err)
	}
	to, saved, err := unpackBytes(t, image.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(to, "shm/a"), 0o755)
	if b, _ := os.ReadFile(saved); string(b) != registers {
		t.Errorf("the snapshot has %d bytes, not %d", len(b), len(registers))
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
	if image, err = packBytes(registers+registers, dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unpackBytes(t, image.Bytes(), 0); !errors.Is(err, errLarge) {
		t.Errorf("a snapshot that is larger than the program may be: %v", err)
	}
}

// Files are made when the snapshot was taken, also where a guard has made a place for a mount, but
// nothing that is there is replaced.
func TestImageMeetsPlaces(t *testing.T) {
	dir := makeJobDirs(t)
	if err := os.WriteFile(filepath.Join(dir, "job/file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := packBytes("registers", dir)
	if err != nil {
		t.Fatal(err)
	}
	for what, occupy := range map[string]func(name string) error{
		"a place": func(name string) error { return os.WriteFile(name, nil, 0o600) },
		"a file":  func(name string) error { return os.WriteFile(name, []byte("other"), 0o600) },
		"a link":  func(name string) error { return os.Symlink("other", name) },
	} {
		to, taken := makeJobDirs(t), false
		name := filepath.Join(to, "job/file")
		err := unpackImage(bytes.NewReader(image.Bytes()), io.Discard, func() error {
			_, err := os.Lstat(name)
			taken = err != nil
			return occupy(name)
		}, to, 0, 0, 2<<20)
		if b, _ := os.ReadFile(name); !taken || (err == nil) != (what == "a place") || (string(b) == "text") != (what == "a place") {
			t.Errorf("%s: %q, %v", what, b, err)
		}
	}
	if err := unpackImage(bytes.NewReader(image.Bytes()), io.Discard, func() error { return io.ErrClosedPipe }, dir, 0, 0, 2<<20); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
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
	if image, err := packBytes("registers", dir); err == nil && bytes.Contains(image.Bytes(), []byte("secret")) {
		t.Error("a folder that was replaced by a link was read")
	}
	if err := unix.Mkfifo(filepath.Join(dir, "job/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := packBytes("registers", dir); err == nil || !strings.Contains(err.Error(), "job/pipe is neither a file, a folder nor a link") {
		t.Errorf("a named pipe: %v", err)
	}
}

// A hostileBee is a program that answers in the place of its bee.
type hostileBee struct {
	t       *testing.T
	movable *movable
	wrote   chan int // bytes
}

// newHostileBee writes size bytes, and says that it wrote said.
func newHostileBee(t *testing.T, size, said int) *hostileBee {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	a := &Agent{config: Config{Limits: proto.Limits{Memory: 1 << 20, Disk: 1 << 20}}}
	h := &hostileBee{t, &movable{agent: a, exec: &proto.Exec{}, process: &process{}, control: ours, dir: makeJobDirs(t),
		ctx: t.Context(), changed: make(chan struct{})}, make(chan int, 1)}
	go h.answer(theirs, size, said)
	return h
}

func (h *hostileBee) answer(sock *os.File, size, said int) {
	raw, err := sock.SyscallConn()
	if err != nil {
		h.t.Error(err)
		return
	}
	data, control := make([]byte, 64), make([]byte, 64)
	var n int
	raw.Read(func(fd uintptr) bool {
		_, n, _, _, err = unix.Recvmsg(int(fd), data, control, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN
	})
	list, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(list) != 1 {
		h.t.Errorf("%d descriptors, %v", len(list), err)
		return
	}
	fd, _ := unix.ParseUnixRights(&list[0])
	wrote, part := 0, make([]byte, 64<<10)
	for wrote < size {
		k, err := unix.Write(fd[0], part[:min(len(part), size-wrote)])
		if err != nil && err != unix.EINTR {
			break
		}
		wrote += max(k, 0)
	}
	unix.Close(fd[0])
	sock.Write(uapi.Append(nil, uapi.SnapshotAnswer{Saved: 1, Bytes: uint64(said)}))
	h.wrote <- wrote
}

func beIdle() error { return nil }

// A program that writes more than it may have, in the place of its bee, fills nobody's disk.
func TestHostileSnapshot(t *testing.T) {
	const size = 64 << 20
	h := newHostileBee(t, size, size)
	var got counter
	if _, _, err := h.movable.pack(&got, beIdle, h.movable.imageMost(), proto.ExecSave{Serial: 1, Hold: true}); !errors.Is(err, errLarge) {
		t.Errorf("a snapshot of %d bytes: %v", size, err)
	}
	if wrote := <-h.wrote; got > 4<<20 || wrote > 8<<20 {
		t.Errorf("%d bytes were stored, and %d taken", got, wrote)
	}
	h = newHostileBee(t, 5000, 6000)
	if _, _, err := h.movable.pack(&got, beIdle, h.movable.imageMost(), proto.ExecSave{Serial: 1, Hold: true}); err == nil || !strings.Contains(err.Error(), "bee wrote 5000 bytes and says that it wrote 6000") {
		t.Errorf("a snapshot without its end: %v", err)
	}
	h = newHostileBee(t, 5000, 5000)
	if _, _, err := h.movable.pack(&got, beIdle, h.movable.imageMost(), proto.ExecSave{Serial: 1, Hold: true}); err != nil {
		t.Error(err)
	}
}

// A program that is to go on is not saved any further, however slow the way is.
func TestSaveIsGivenUp(t *testing.T) {
	h := newHostileBee(t, 1<<40, 0)
	h.movable.exec.Limits = proto.Limits{Memory: 1 << 50}
	var resume sync.Once
	way := writerFunc(func(p []byte) (int, error) {
		resume.Do(func() {
			resumed, _ := json.Marshal(proto.ExecSave{Serial: 7})
			h.movable.take(proto.ExecResume, resumed)
		})
		return len(p), nil
	})
	if _, _, err := h.movable.pack(way, beIdle, 1<<62, proto.ExecSave{Serial: 7, Hold: true}); err == nil {
		t.Error("it was saved")
	}
	<-h.wrote
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A file of a program may have more bytes than space. It is not written into an image.
func TestSparseFile(t *testing.T) {
	h := newHostileBee(t, 5000, 5000)
	name := filepath.Join(h.movable.dir, "job/file")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, 1<<40)); err != nil {
		t.Fatal(err)
	}
	var got counter
	if _, _, err := h.movable.pack(&got, beIdle, h.movable.imageMost(), proto.ExecSave{Serial: 1, Hold: true}); !errors.Is(err, errLarge) || got > 4<<20 {
		t.Errorf("a file of 1 TiB: %v, %d bytes", err, got)
	}
}

// An image in a file of this node's leaves half of the free disk, whatever the limits are.
func TestImageLeavesDisk(t *testing.T) {
	a := &Agent{tmp: t.TempDir(), config: Config{Limits: proto.Limits{Memory: 1 << 60, Disk: 1 << 60}}}
	m := &movable{agent: a, exec: &proto.Exec{}}
	if most, free := m.fileMost(), freeBytes(a.tmp); most > free*3/4 || most == 0 {
		t.Errorf("%d bytes of %d", most, free)
	}
	a.config.Limits.Memory, a.config.Limits.Disk = 2, 3
	if most := m.fileMost(); most != 3+3*2 {
		t.Errorf("%d bytes with limits of 2 and 3", most)
	}
}
