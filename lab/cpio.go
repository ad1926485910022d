// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"io"
	"strings"
)

// A cpio writes an archive in the "newc" format, which the kernel unpacks as its first
// root file system. All entries belong to root and have time 0.
type cpio struct {
	w     io.Writer
	inode int
	err   error
}

// addDir adds a folder. Its parents must have been added before.
func (c *cpio) addDir(name string) { c.addEntry(name, 0o040755, nil) }

// addFile adds a file that only root may write, executable if exec is set.
func (c *cpio) addFile(name string, exec bool, data []byte) {
	mode := 0o100644
	if exec {
		mode = 0o100755
	}
	c.addEntry(name, mode, data)
}

// close ends the archive and returns the first error that occurred.
func (c *cpio) close() error {
	c.inode = -1
	c.addEntry("TRAILER!!!", 0, nil)
	return c.err
}

// cpioMax is the largest size that eight hexadecimal digits can hold.
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

// paddingOf returns the number of bytes that pad n to a multiple of four.
func paddingOf(n int) int { return -n & 3 }

func (c *cpio) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
