// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"io"
	"strings"
)

// A cpio writes an archive in the "newc" format, which the kernel unpacks as
// the first root. All of it belongs to root and has no time.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

// addDir adds a folder; its parents come first.
func (c *cpio) addDir(name string) { c.addEntry(name, 0o040755, nil) }

// addFile adds a file that only root may change, executable where exec is set.
func (c *cpio) addFile(name string, exec bool, data []byte) {
	mode := 0o100644
	if exec {
		mode = 0o100755
	}
	c.addEntry(name, mode, data)
}

// close ends the archive and returns the first error of all.
func (c *cpio) close() error {
	c.inode = -1
	c.addEntry("TRAILER!!!", 0, nil)
	return c.err
}

// cpioMax is what the eight hexadecimal digits of a size can say.
const cpioMax = 1<<32 - 1

func (c *cpio) addEntry(name string, mode int, data []byte) {
	name = strings.TrimPrefix(name, "/")
	if c.err == nil && len(data) > cpioMax {
		c.err = fmt.Errorf("%s: %d bytes do not fit in an initramfs", name, len(data))
	}
	c.inode++
	links := 1
	fields := []int{c.inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0}
	head := "070701"
	for _, f := range fields {
		head += fmt.Sprintf("%08x", f)
	}
	head += name + "\x00"
	c.write([]byte(head + strings.Repeat("\x00", paddingOf(len(head)))))
	c.write(data)
	c.write(make([]byte, paddingOf(len(data))))
}

// paddingOf brings n to a multiple of four.
func paddingOf(n int) int { return -n & 3 }

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
