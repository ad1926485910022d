// SPDX-License-Identifier: MIT

package part

import (
	"fmt"
	"strings"
)

// An ArchiveFile is a file or, with a mode of one, a folder of an archive.
type ArchiveFile struct {
	Name string
	Mode int
	Data []byte
}

// GuestFiles returns an archive for the end of a kernel's initial file system: its first
// program, and the module of its console. The kernel unpacks one archive after another.
func GuestFiles(init, module []byte) []byte {
	return Archive(ArchiveFile{"skep", 0o040755, nil}, ArchiveFile{"skep/init", 0o100755, init},
		ArchiveFile{"skep/shimos_guest.ko", 0o100644, module})
}

// Archive returns an archive of these files, in the format that a kernel unpacks.
func Archive(files ...ArchiveFile) (out []byte) {
	for i, f := range files {
		out = appendEntry(out, i+1, f)
	}
	return appendEntry(out, 0, ArchiveFile{Name: "TRAILER!!!"})
}

// appendEntry appends a file in the format newc, padded to a multiple of four bytes.
func appendEntry(out []byte, inode int, f ArchiveFile) []byte {
	head := "070701"
	for _, n := range []int{inode, f.Mode, 0, 0, 1, 0, len(f.Data), 0, 0, 0, 0, len(f.Name) + 1, 0} {
		head += fmt.Sprintf("%08x", n)
	}
	head += f.Name + "\x00"
	out = append(out, head+strings.Repeat("\x00", -len(head)&3)...)
	out = append(out, f.Data...)
	return append(out, make([]byte, -len(f.Data)&3)...)
}

// JoinArchives puts an archive behind a user's initial file system. The kernel looks for
// it at a multiple of four bytes.
func JoinArchives(user, ours []byte) []byte {
	out := append(make([]byte, 0, len(user)+len(ours)+4), user...)
	out = append(out, make([]byte, -len(out)&3)...)
	return append(out, ours...)
}
