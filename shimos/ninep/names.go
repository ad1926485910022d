// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import "golang.org/x/sys/unix"

const longestLink = 4096 // PATH_MAX of Linux

// made gives an entry that was just created its owner and mode, and writes its qid. It has
// to be what was created, by this process: others may rename entries meanwhile.
func (f *fid) made(name string, kind, mode, group uint32, e *encoder) error {
	fd, err := openBelow(f.path, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != kind || st.Uid != uint32(unix.Geteuid()) {
		return unix.ESTALE
	}
	if err := unix.Fchownat(fd, "", int(f.user), int(group), unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	if kind != unix.S_IFLNK {
		if err := unix.Chmod(procPath(fd), mode&0o7777); err != nil {
			return err
		}
	}
	e.qid(qidOf(&st))
	return nil
}

func (s *Server) makeSymlink(d *decoder, e *encoder) error {
	folder, name, target, group := d.u32(), d.name(), d.text(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(folder)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(target, f.path, name); err != nil {
		return err
	}
	return f.made(name, unix.S_IFLNK, 0, group, e)
}

func (s *Server) readSymlink(d *decoder, e *encoder) error {
	number := d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	target := make([]byte, longestLink)
	n, err := unix.Readlinkat(f.path, "", target)
	if err == unix.ENOENT { // what the call says about other files
		err = unix.EINVAL
	}
	if err != nil {
		return err
	}
	e.text(string(target[:n]))
	return nil
}

func (s *Server) makeFolder(d *decoder, e *encoder) error {
	folder, name, mode, group := d.u32(), d.name(), d.u32(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(folder)
	if err != nil {
		return err
	}
	if err := unix.Mkdirat(f.path, name, 0o700); err != nil {
		return err
	}
	return f.made(name, unix.S_IFDIR, mode, group, e)
}

// makeNode makes pipes and sockets, and files. A device would be one of this Linux, for
// whoever opens it here.
func (s *Server) makeNode(d *decoder, e *encoder) error {
	folder, name, mode := d.u32(), d.name(), d.u32()
	d.u64() // major and minor
	group := d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(folder)
	if err != nil {
		return err
	}
	kind := mode & unix.S_IFMT
	switch kind {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFREG:
	default:
		return unix.EPERM
	}
	if err := unix.Mknodat(f.path, name, kind|0o600, 0); err != nil {
		return err
	}
	return f.made(name, kind, mode, group, e)
}

func (s *Server) makeLink(d *decoder, _ *encoder) error {
	folder, number, name := d.u32(), d.u32(), d.name()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	to, err := s.find(folder)
	if err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, procPath(f.path), to.path, name, unix.AT_SYMLINK_FOLLOW)
}

func (s *Server) renameEntry(d *decoder, _ *encoder) error {
	from, old, to, name := d.u32(), d.name(), d.u32(), d.name()
	if err := d.end(); err != nil {
		return err
	}
	a, err := s.find(from)
	if err != nil {
		return err
	}
	b, err := s.find(to)
	if err != nil {
		return err
	}
	return unix.Renameat(a.path, old, b.path, name)
}

func (s *Server) unlinkEntry(d *decoder, _ *encoder) error {
	folder, name, flags := d.u32(), d.name(), d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(folder)
	if err != nil {
		return err
	}
	return unix.Unlinkat(f.path, name, int(flags&unix.AT_REMOVEDIR))
}
