// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	// What the client may ask for when it opens a file. It computes the place of an
	// appended write itself, so O_APPEND is left out: pwrite would ignore the place.
	openFlags = unix.O_ACCMODE | unix.O_TRUNC | unix.O_DIRECTORY | unix.O_DSYNC | unix.O_SYNC
	rreadHead = headBytes + 4
)

// reopen opens the file of an O_PATH descriptor. Only files and folders: opening a device
// or a pipe of this Linux would have effects, and the client opens its own instead.
func reopen(path int, flags uint32) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(path, &st); err != nil {
		return -1, err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, unix.EACCES
	}
	return unix.Open(procPath(path), int(flags&openFlags)|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
}

func (s *Server) openFile(d *decoder, e *encoder) error {
	number, flags := d.u32(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	if f.file >= 0 {
		return unix.EBADF
	}
	file, err := reopen(f.path, flags)
	if err != nil {
		return err
	}
	return f.opened(file, e)
}

// opened keeps an open file, and writes its qid and "no most bytes but the message's".
func (f *fid) opened(file int, e *encoder) error {
	q, err := qidOfFile(file)
	if err != nil {
		unix.Close(file)
		return err
	}
	f.file = file
	e.qid(q)
	e.u32(0)
	return nil
}

// createFile creates a file in a folder, and makes the folder's fid that file's.
func (s *Server) createFile(d *decoder, e *encoder) error {
	number, name, flags, mode, group := d.u32(), d.name(), d.u32(), d.u32(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	if f.file >= 0 {
		return unix.EBADF
	}
	file, err := f.create(name, flags, mode, group)
	if err != nil {
		return err
	}
	path, err := unix.Open(procPath(file), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(file)
		return err
	}
	unix.Close(f.path)
	f.path = path
	return f.opened(file, e)
}

// create opens a new file. One that is there already may be anything, so it is opened as
// other files are.
func (f *fid) create(name string, flags, mode, group uint32) (int, error) {
	file, err := unix.Openat(f.path, name, int(flags&openFlags)|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == unix.EEXIST && flags&unix.O_EXCL == 0 {
		there, err := openBelow(f.path, name)
		if err != nil {
			return -1, err
		}
		defer unix.Close(there)
		return reopen(there, flags)
	}
	if err != nil {
		return -1, err
	}
	// The owner first: a change of it clears set-user-ID bits.
	err = unix.Fchown(file, int(f.user), int(group))
	if err == nil {
		err = unix.Fchmod(file, mode&0o7777)
	}
	if err != nil {
		unix.Close(file)
		return -1, err
	}
	return file, nil
}

// open returns the open file of a number.
func (s *Server) open(n uint32) (int, error) {
	f, err := s.find(n)
	if err != nil {
		return -1, err
	}
	if f.file < 0 {
		return -1, unix.EBADF
	}
	return f.file, nil
}

// limit returns how many bytes of data a reply can have.
func (s *Server) limit(count uint32) int {
	return max(0, min(int(min(count, MaxMessage)), s.room-rreadHead))
}

func (s *Server) readFile(d *decoder, e *encoder) error {
	number, at, count := d.u32(), d.u64(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	file, err := s.open(number)
	if err != nil {
		return err
	}
	data := make([]byte, s.limit(count))
	n, err := unix.Pread(file, data, int64(at))
	if err != nil {
		return err
	}
	e.u32(uint32(n))
	*e = append(*e, data[:n]...)
	return nil
}

func (s *Server) writeFile(d *decoder, e *encoder) error {
	number, at, count := d.u32(), d.u64(), d.u32()
	data := d.take(uint64(count))
	if err := d.end(); err != nil {
		return err
	}
	file, err := s.open(number)
	if err != nil {
		return err
	}
	n, err := unix.Pwrite(file, data, int64(at))
	if err != nil {
		return err
	}
	e.u32(uint32(n))
	return nil
}

// readFolder sends as many entries as fit, from a place that an entry before named.
func (s *Server) readFolder(d *decoder, e *encoder) error {
	number, at, count := d.u32(), d.u64(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	file, err := s.open(number)
	if err != nil {
		return err
	}
	if _, err := unix.Seek(file, int64(at), unix.SEEK_SET); err != nil {
		return err
	}
	most := s.limit(count)
	entries := make([]byte, 32<<10)
	n, err := unix.Getdents(file, entries)
	if err != nil {
		return err
	}
	out := encodeEntries(entries[:n], most)
	if n > 0 && len(out) == 0 {
		return unix.EINVAL // as Linux's getdents: not even one fits
	}
	e.u32(uint32(len(out)))
	*e = append(*e, out...)
	return nil
}

// encodeEntries turns the kernel's struct linux_dirent64 into the protocol's entries, of at
// most `most` bytes together.
func encodeEntries(entries []byte, most int) []byte {
	const fixed = 19 // d_ino[8] d_off[8] d_reclen[2] d_type[1]
	var out encoder
	for len(entries) >= fixed {
		length := int(binary.LittleEndian.Uint16(entries[16:]))
		kind := entries[18]
		name, _, _ := bytes.Cut(entries[fixed:length], []byte{0})
		q := qid{path: binary.LittleEndian.Uint64(entries)}
		switch kind {
		case unix.DT_DIR:
			q.kind = 0x80
		case unix.DT_LNK:
			q.kind = 0x02
		}
		if len(out)+24+len(name) > most {
			break
		}
		out.qid(q)
		out.u64(binary.LittleEndian.Uint64(entries[8:]))
		out.u8(kind)
		out.text(string(name))
		entries = entries[length:]
	}
	return out
}

func (s *Server) syncFile(d *decoder, _ *encoder) error {
	number, dataOnly := d.u32(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	file, err := s.open(number)
	if err != nil {
		return err
	}
	if dataOnly != 0 {
		return unix.Fdatasync(file)
	}
	return unix.Fsync(file)
}

// lockFile grants each lock: the one client keeps the locks of its programs itself. They
// do not hold between it and programs of this Linux.
func (s *Server) lockFile(d *decoder, e *encoder) error {
	number := d.u32()
	d.take(1 + 4 + 8 + 8 + 4) // type, flags, start, length, process
	d.text()
	if err := d.end(); err != nil {
		return err
	}
	if _, err := s.open(number); err != nil {
		return err
	}
	e.u8(0) // granted
	return nil
}

// testLock says that nobody else has a lock.
func (s *Server) testLock(d *decoder, e *encoder) error {
	number := d.u32()
	d.take(1)
	start, length, process, client := d.u64(), d.u64(), d.u32(), d.text()
	if err := d.end(); err != nil {
		return err
	}
	if _, err := s.open(number); err != nil {
		return err
	}
	e.u8(unix.F_UNLCK)
	e.u64(start)
	e.u64(length)
	e.u32(process)
	e.text(client)
	return nil
}
