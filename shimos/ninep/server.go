// SPDX-License-Identifier: MIT

//go:build linux

// Package ninep serves the files of one folder in the protocol 9P2000.L, which Linux's own
// 9p file system speaks. https://github.com/chaos/diod/blob/master/protocol.md describes it.
// The client is hostile.
package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// MaxMessage is the size of the largest request or reply, in bytes.
	MaxMessage = 128 << 10
	leastSize  = 4096
	maxFids    = 100000
)

// ErrSpoiled is a request without even a head, so that it cannot be answered.
var ErrSpoiled = errors.New("a message of its file system is shorter than 7 bytes, or says another length than it has")

// A Server answers the requests of one client about the files below one folder. One
// goroutine uses it at a time.
//
// It keeps descriptors, not paths: each fid is an O_PATH descriptor, and each step of a
// walk is one name below it, no symbolic link, no "..". So there is no path that could
// lead out of the folder.
type Server struct {
	root  int
	fids  map[uint32]*fid
	most  int // bytes of a message, as agreed with the client
	room  int // bytes of this reply
	calls map[uint8]call
}

// A call reads a request's fields and writes the reply's.
type call func(*decoder, *encoder) error

// A fid is a file that the client refers to by a number.
type fid struct {
	path int // O_PATH
	file int // open for reading or writing, or -1
	user uint32
}

func (f *fid) close() {
	unix.Close(f.path)
	if f.file >= 0 {
		unix.Close(f.file)
	}
}

// NewServer serves the folder dir, which it opens. The caller closes the Server.
func NewServer(dir string) (*Server, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOTDIR:
		return nil, fmt.Errorf("%s is not a folder", dir)
	default:
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s := &Server{root: root, fids: map[uint32]*fid{}, most: MaxMessage}
	s.calls = map[uint8]call{
		kindVersion: s.setVersion, kindAttach: s.attachRoot, kindFlush: flushNothing,
		kindWalk: s.walkNames, kindClunk: s.clunkFid, kindRemove: s.refuseRemove,
		kindOpen: s.openFile, kindCreate: s.createFile, kindRead: s.readFile, kindWrite: s.writeFile,
		kindReaddir: s.readFolder, kindFsync: s.syncFile, kindLock: s.lockFile, kindGetlock: s.testLock,
		kindGetattr: s.getAttributes, kindSetattr: s.setAttributes, kindStatfs: s.statFilesystem,
		kindSymlink: s.makeSymlink, kindReadlink: s.readSymlink, kindLink: s.makeLink,
		kindMkdir: s.makeFolder, kindMknod: s.makeNode, kindRenameat: s.renameEntry, kindUnlinkat: s.unlinkEntry,
	}
	return s, nil
}

// Close closes all files.
func (s *Server) Close() error {
	s.dropFids()
	return unix.Close(s.root)
}

func (s *Server) dropFids() {
	for n, f := range s.fids {
		f.close()
		delete(s.fids, n)
	}
}

// Answer carries out a request and returns its reply of at most `room` bytes, which must
// be at least 11.
func (s *Server) Answer(request []byte, room int) ([]byte, error) {
	if len(request) < headBytes || uint64(binary.LittleEndian.Uint32(request)) != uint64(len(request)) {
		return nil, ErrSpoiled
	}
	kind, tag := request[4], request[5:headBytes]
	reply := encoder(make([]byte, headBytes, 512))
	err := error(unix.EOPNOTSUPP)
	if do, ok := s.calls[kind]; ok {
		s.room = min(room, s.most)
		err = do(&decoder{rest: request[headBytes:]}, &reply)
	}
	if err == nil && len(reply) > s.room {
		err = unix.EMSGSIZE
	}
	if err != nil {
		kind, reply = kindError, reply[:headBytes]
		reply.u32(uint32(numberOf(err)))
	}
	binary.LittleEndian.PutUint32(reply, uint32(len(reply)))
	reply[4] = kind + 1
	copy(reply[5:], tag)
	return reply, nil
}

// numberOf returns an error's number, which is the same in every Linux.
func numberOf(err error) unix.Errno {
	var n unix.Errno
	if errors.As(err, &n) && n != 0 {
		return n
	}
	return unix.EIO
}

// setVersion begins anew: the client forgot its fids.
func (s *Server) setVersion(d *decoder, e *encoder) error {
	most, version := d.u32(), d.text()
	if err := d.end(); err != nil {
		return err
	}
	if most < leastSize {
		return unix.EMSGSIZE
	}
	s.dropFids()
	s.most = int(min(most, MaxMessage))
	if version != protocol {
		version = unknownVersion
	}
	e.u32(uint32(s.most))
	e.text(version)
	return nil
}

// flushNothing answers that a request is not under way any more: each one was answered
// before the next is read.
func flushNothing(d *decoder, _ *encoder) error {
	d.u16()
	return d.end()
}
