// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func archiveOf(t *testing.T, fill func(c *cpio)) []byte {
	t.Helper()
	var b bytes.Buffer
	c := &cpio{w: &b}
	fill(c)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A reader written for this test, after the kernel's documentation of the format, gets
// back names and contents of every length.
func TestCpio_layout(t *testing.T) {
	var names []string
	b := archiveOf(t, func(c *cpio) {
		c.addDir("/d")
		for n := range 6 {
			name := "/d/" + strings.Repeat("n", n+1)
			names = append(names, name[1:])
			c.addFile(name, n == 3, bytes.Repeat([]byte{'x'}, n))
		}
	})
	at := 0
	for i := -1; ; i++ {
		if string(b[at:at+6]) != "070701" {
			t.Fatalf("entry at %d begins with %q", at, b[at:at+6])
		}
		var f [13]int
		for k := range f {
			fmt.Sscanf(string(b[at+6+8*k:at+14+8*k]), "%08x", &f[k])
		}
		size, nameSize := f[6], f[11]
		name := string(b[at+110 : at+110+nameSize-1])
		at += (110 + nameSize + 3) &^ 3
		data := b[at : at+size]
		at += (size + 3) &^ 3
		if name == "TRAILER!!!" {
			break
		}
		mode := 0o100644
		switch {
		case i == -1:
			mode = 0o040755
		case i == 3:
			mode = 0o100755
		}
		if f[1] != mode || i >= 0 && (name != names[i] || string(data) != strings.Repeat("x", i)) {
			t.Errorf("entry %d is %q, mode %o, %q", i, name, f[1], data)
		}
	}
	if at != len(b) {
		t.Errorf("%d bytes after the trailer", len(b)-at)
	}
}

// The program cpio reads the archive.
func TestCpio_program(t *testing.T) {
	path, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("no cpio program on this computer")
	}
	b := archiveOf(t, func(c *cpio) {
		c.addDir("/modules")
		c.addFile("/modules/a.ko", false, []byte("abc"))
		c.addFile("/init", true, []byte("de"))
	})
	list := exec.Command(path, "-itv")
	list.Stdin = bytes.NewReader(b)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, want := range [][2]string{{"drwxr-xr-x", "modules"}, {"-rw-r--r--", "modules/a.ko"}, {"-rwxr-xr-x", "init"}} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want[0]) || !strings.HasSuffix(lines[i], " "+want[1]) {
			t.Fatalf("listed:\n%s", out)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

func TestCpio_error(t *testing.T) {
	c := &cpio{w: full{}}
	c.addFile("/init", true, []byte("x"))
	if err := c.close(); err == nil || err.Error() != "disk full" {
		t.Errorf("close says %v", err)
	}
}
