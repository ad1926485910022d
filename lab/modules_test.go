// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	depText = `kernel/net/9p/9pnet.ko.xz:
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/fs/netfs/netfs.ko.xz:
kernel/net/9p/9pnet_virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/d/virtio.ko.xz kernel/d/virtio-ring.ko.xz
kernel/d/virtio.ko.xz: kernel/d/virtio-ring.ko.xz
kernel/d/virtio-ring.ko.xz:
`
	builtinText = "kernel/fs/ext2/ext2.ko\nkernel/lib/crc-t10dif.ko\n"
)

func joinNames(files []string) string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = moduleName(f)
	}
	return strings.Join(list, " ")
}

func TestClosureOrder(t *testing.T) {
	for _, c := range []struct{ want, ask string }{
		{"netfs 9pnet 9p", "9p"},
		{"netfs 9pnet 9p virtio_ring virtio 9pnet_virtio", "9p 9pnet_virtio"},
		{"virtio_ring", "virtio-ring virtio_ring"},
		{"virtio_ring virtio", "virtio.ko"},
		{"", "ext2 crc_t10dif crc-t10dif"},
		{"", ""},
	} {
		got, err := moduleClosure(depText, builtinText, strings.Fields(c.ask))
		if err != nil || joinNames(got) != c.want {
			t.Errorf("closure(%s) = %q, %v; want %q", c.ask, joinNames(got), err, c.want)
		}
	}
}

func TestClosureRefuses(t *testing.T) {
	for _, c := range []struct{ dep, ask, want string }{
		{depText, "9p nonsense", `"nonsense"`},
		{depText, "", `""`},
		{"kernel/a.ko kernel/b.ko\n", "a", "modules.dep:1"},
		{"kernel/b.ko:\n../../etc/a.ko:\n", "a", "modules.dep:2"},
		{"kernel/b.ko: /etc/a.ko\n", "b", "modules.dep:1"},
	} {
		asked := strings.Split(c.ask, " ")
		if got, err := moduleClosure(c.dep, "x.ko\n", asked); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("closure(%q) = %v, %v; want an error with %s", c.ask, got, err, c.want)
		}
	}
}

// In a damaged modules.dep modules may need each other in a circle.
func TestClosureOfACircleEnds(t *testing.T) {
	got, err := moduleClosure("a.ko: b.ko\nb.ko: a.ko\n", "", []string{"a"})
	if err != nil || joinNames(got) != "b a" {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzClosure(f *testing.F) {
	f.Add(depText, builtinText, "9p")
	f.Add("a.ko: a.ko\n", "\n", "a")
	f.Fuzz(func(t *testing.T, dep, builtin, name string) {
		got, err := moduleClosure(dep, builtin, []string{name})
		if err != nil {
			return
		}
		for i, p := range got {
			if !filepath.IsLocal(p) || slices.Contains(got[:i], p) {
				t.Errorf("path %q in %q", p, got)
			}
		}
	})
}

func TestClosureGivesPathsOfTheKernel(t *testing.T) {
	k := plantKernel(t, t.TempDir(), "6.1")
	got, err := k.Closure("9p")
	if err != nil || len(got) != 3 || got[2] != filepath.Join(k.Dir, "lib/modules/6.1.0-9-amd64/kernel/fs/9p/9p.ko.xz") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := k.Closure("nonsense"); err == nil || !strings.Contains(err.Error(), "6.1.0-9-amd64") {
		t.Errorf("error %v names no release", err)
	}
}

func TestReadModule(t *testing.T) {
	dir := t.TempDir()
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	head = append(head, 1, 0, 62, 0, 1, 0, 0, 0)               // an object for x86-64
	head = append(head, make([]byte, 28)...)                   // without tables
	head = append(head, 64, 0, 56, 0, 0, 0, 64, 0, 0, 0, 0, 0) // sizes and numbers
	object := append(head, bytes.Repeat([]byte{7}, 100000)...)
	cut := bytes.Clone(object)
	cut[41], cut[60] = 0xf0, 1 // the section table is beyond the end
	cut = cut[:0xf000]
	write := func(name string, data []byte) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	packed := func(data []byte) []byte {
		t.Helper()
		xz := exec.Command("xz", "-zc", "-0")
		xz.Stdin = bytes.NewReader(data)
		out, err := xz.Output()
		if err != nil {
			t.Fatalf("xz: %v; run make setup", err)
		}
		return out
	}
	compressed := packed(object)
	for _, p := range []string{write("a.ko", object), write("b.ko.xz", compressed)} {
		if got, err := ReadModule(p); err != nil || !bytes.Equal(got, object) {
			t.Errorf("%s: %d bytes, %v", p, len(got), err)
		}
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"text.ko":      {[]byte("text"), "no ELF object"},
		"empty.ko":     {nil, "no ELF object"},
		"cut.ko":       {cut, "run make kernels"},
		"short.ko.xz":  {compressed[:len(compressed)/2], "unpacking"},
		"plain.ko.xz":  {object, "unpacking"},
		"large.ko.xz":  {packed(make([]byte, maxModule+1)), "more than 64 MiB"},
		"other.ko.zst": {object, "want .ko or .ko.xz"},
	} {
		if _, err := ReadModule(write(name, c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
