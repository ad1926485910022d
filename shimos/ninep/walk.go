// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"math/bits"
	"strconv"

	"golang.org/x/sys/unix"
)

// openBelow opens one entry of a folder, whatever it is; a symbolic link is not followed.
func openBelow(folder int, name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	return unix.Openat2(folder, name, &how)
}

// procPath names the file of an O_PATH descriptor for calls that take none. It leads to
// that file, also if that is a symbolic link.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// qidOf tells files apart: of other file systems, which may be mounted below the folder, by
// the upper bits.
func qidOf(st *unix.Stat_t) (q qid) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		q.kind = 0x80
	case unix.S_IFLNK:
		q.kind = 0x02
	}
	q.path = st.Ino ^ bits.RotateLeft64(st.Dev, 48)
	return q
}

func qidOfFile(fd int) (qid, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return qid{}, err
	}
	return qidOf(&st), nil
}

// find returns the file of a number that the client was given.
func (s *Server) find(n uint32) (*fid, error) {
	if f := s.fids[n]; f != nil {
		return f, nil
	}
	return nil, unix.EBADF
}

// add gives a number to a file, which it closes in case of an error.
func (s *Server) add(n uint32, f *fid) (err error) {
	switch {
	case n == noFid || s.fids[n] != nil:
		err = unix.EBADF
	case len(s.fids) >= maxFids:
		err = unix.ENFILE
	default:
		s.fids[n] = f
		return nil
	}
	f.close()
	return err
}

func (s *Server) attachRoot(d *decoder, e *encoder) error {
	number, auth := d.u32(), d.u32()
	d.text() // of a user, by name
	tree, user := d.text(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	if auth != noFid || tree != "" && tree != "/" {
		return unix.EINVAL
	}
	q, err := qidOfFile(s.root)
	if err != nil {
		return err
	}
	path, err := copyDescriptor(s.root)
	if err != nil {
		return err
	}
	e.qid(q)
	return s.add(number, &fid{path: path, file: -1, user: user})
}

func copyDescriptor(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// walkNames gives a number to a file some steps below another one. If a later step than
// the first fails, the reply has the steps before, and there is no new number.
func (s *Server) walkNames(d *decoder, e *encoder) error {
	from, to, count := d.u32(), d.u32(), d.u16()
	if count > maxWalk {
		return unix.EINVAL
	}
	names := make([]string, count)
	for i := range names {
		names[i] = d.name()
	}
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(from)
	if err != nil {
		return err
	}
	if from == to && f.file >= 0 {
		return unix.EBADF
	}
	at, qids, err := walk(f.path, names)
	if err != nil && len(qids) == 0 {
		return err
	}
	e.u16(uint16(len(qids)))
	for _, q := range qids {
		e.qid(q)
	}
	if at < 0 {
		return nil
	}
	if from == to {
		unix.Close(f.path)
		f.path = at
		return nil
	}
	return s.add(to, &fid{path: at, file: -1, user: f.user})
}

// walk goes down from a file. Where a step fails it returns -1, with the qids before.
func walk(from int, names []string) (int, []qid, error) {
	at, err := copyDescriptor(from)
	if err != nil {
		return -1, nil, err
	}
	var qids []qid
	for _, name := range names {
		next, err := openBelow(at, name)
		unix.Close(at)
		if err != nil {
			return -1, qids, err
		}
		q, err := qidOfFile(next)
		if err != nil {
			unix.Close(next)
			return -1, qids, err
		}
		qids, at = append(qids, q), next
	}
	return at, qids, nil
}

func (s *Server) clunkFid(d *decoder, _ *encoder) error {
	number := d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	f.close()
	delete(s.fids, number)
	return nil
}

// refuseRemove forgets the fid, as the protocol wants in any case. The client removes by
// unlinkat.
func (s *Server) refuseRemove(d *decoder, e *encoder) error {
	if err := s.clunkFid(d, e); err != nil {
		return err
	}
	return unix.EOPNOTSUPP
}
