// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import "golang.org/x/sys/unix"

// Which attributes a request sets.
const (
	setMode = 1 << iota
	setUser
	setGroup
	setSize
	setAccess
	setChange // of the content
	setStatus // of the attributes: the time is always now
	setAccessTo
	setChangeTo
)

const basicAttributes = 0x7ff // all but the time of birth, and generations

func (s *Server) getAttributes(d *decoder, e *encoder) error {
	number := d.u32()
	d.u64() // which ones: it gets all
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(f.path, &st); err != nil {
		return err
	}
	e.u64(basicAttributes)
	e.qid(qidOf(&st))
	e.u32(st.Mode)
	e.u32(st.Uid)
	e.u32(st.Gid)
	for _, n := range []uint64{uint64(st.Nlink), st.Rdev, uint64(st.Size), uint64(st.Blksize), uint64(st.Blocks)} {
		e.u64(n)
	}
	for _, t := range []unix.Timespec{st.Atim, st.Mtim, st.Ctim} {
		e.u64(uint64(t.Sec))
		e.u64(uint64(t.Nsec))
	}
	for range 4 { // birth, generation, version of the data
		e.u64(0)
	}
	return nil
}

// attributes are what a request sets.
type attributes struct {
	valid, mode, user, group uint32
	size                     uint64
	access, change           unix.Timespec
}

func (s *Server) setAttributes(d *decoder, _ *encoder) error {
	number := d.u32()
	a := attributes{valid: d.u32(), mode: d.u32(), user: d.u32(), group: d.u32(), size: d.u64()}
	a.access = unix.Timespec{Sec: int64(d.u64()), Nsec: int64(d.u64())}
	a.change = unix.Timespec{Sec: int64(d.u64()), Nsec: int64(d.u64())}
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	return a.apply(f.path)
}

// apply sets what is valid. The owner comes before the mode, whose set-user-ID bits a new
// owner clears.
func (a *attributes) apply(path int) error {
	if a.valid&(setUser|setGroup) != 0 {
		user, group := -1, -1
		if a.valid&setUser != 0 {
			user = int(a.user)
		}
		if a.valid&setGroup != 0 {
			group = int(a.group)
		}
		if err := unix.Fchownat(path, "", user, group, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if a.valid&setMode != 0 {
		if err := unix.Chmod(procPath(path), a.mode&0o7777); err != nil {
			return err
		}
	}
	if a.valid&setSize != 0 {
		if err := unix.Truncate(procPath(path), int64(a.size)); err != nil {
			return err
		}
	}
	if a.valid&(setAccess|setChange) == 0 {
		return nil
	}
	times := []unix.Timespec{timeOf(a.valid, setAccess, setAccessTo, a.access), timeOf(a.valid, setChange, setChangeTo, a.change)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(path), times, 0)
}

// timeOf returns a time for utimensat: none, now, or the one that was sent.
func timeOf(valid, set, to uint32, t unix.Timespec) unix.Timespec {
	switch {
	case valid&set == 0:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	case valid&to == 0:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return t
}

func (s *Server) statFilesystem(d *decoder, e *encoder) error {
	number := d.u32()
	if err := d.end(); err != nil {
		return err
	}
	f, err := s.find(number)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.path, &st); err != nil {
		return err
	}
	e.u32(uint32(st.Type))
	e.u32(uint32(st.Bsize))
	for _, n := range []uint64{st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree} {
		e.u64(n)
	}
	e.u32(uint32(st.Fsid.Val[0]))
	e.u32(uint32(st.Fsid.Val[1]))
	e.u32(uint32(st.Namelen))
	return nil
}
