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

// What shimos/linux/init takes of a program's words: their number, and the bytes of all, each
// with its end.
const (
	MostWords = 4000
	MostText  = 65000
)

// Devices are what a kernel needs for the devices that the command serves.
type Devices struct {
	Modules   [][]byte // of that kernel, in the order in which they are loaded
	Transport []byte   // shimos_virtio.ko
	Root      bool     // one of them is its root file system
	Command   []string // its program there, with arguments; empty: /sbin/init
}

// GuestFiles returns an archive for the end of a kernel's initial file system: its first
// program, the module of its console, and what its devices need, if there are any.
// The kernel unpacks one archive after another.
func GuestFiles(init, module []byte, d *Devices) []byte {
	files := []ArchiveFile{{"skep", 0o040755, nil}, {"skep/init", 0o100755, init}, {"skep/shimos_guest.ko", 0o100644, module}}
	if d != nil {
		files = append(files, d.files()...)
	}
	return Archive(files...)
}

func (d *Devices) files() (list []ArchiveFile) {
	for i, module := range d.Modules {
		list = append(list, ArchiveFile{fmt.Sprintf("skep/%d.ko", i), 0o100644, module})
	}
	list = append(list, ArchiveFile{"skep/shimos_virtio.ko", 0o100644, d.Transport})
	if !d.Root {
		return list
	}
	var words []byte
	for _, word := range d.Command {
		words = append(words, word+"\x00"...)
	}
	return append(list, ArchiveFile{"skep/root", 0o040755, nil}, ArchiveFile{"skep/words", 0o100644, words})
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
