// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sectorBytes = 512
	diskHeader  = 16 // bytes of a request (virtio 1.2, section 5.2.6)

	diskRead    = 0
	diskWrite   = 1
	diskFlush   = 4
	diskName    = 8
	diskDone    = 0
	diskFailed  = 1
	diskUnknown = 2

	// so that a request is less than mostBytes and fits into the queue
	diskSegments     = 64
	diskSegmentBytes = 8192
)

// A disk is a disk of the kernel: a file of this Linux, with a lock.
type disk struct {
	file *os.File
	size int64 // bytes
}

// diskModel is a device of virtio's kind 2: a disk that keeps writes until it is flushed.
func diskModel(path string) (m model, err error) {
	d, err := openDisk(path)
	if err != nil {
		return m, &RefusedError{fmt.Sprintf("the disk: %v", err)}
	}
	const kind, hasSegmentBytes, hasSegments, hasFlush = 2, 1 << 1, 1 << 2, 1 << 9
	config := binary.LittleEndian.AppendUint64(nil, uint64(d.size/sectorBytes))
	config = binary.LittleEndian.AppendUint32(config, diskSegmentBytes)
	config = binary.LittleEndian.AppendUint32(config, diskSegments)
	return model{"its disk", kind, 1, hasSegmentBytes | hasSegments | hasFlush, config, d}, nil
}

// openDisk opens a file of whole sectors, or a block device, that no other kernel uses.
func openDisk(path string) (*disk, error) {
	info, err := os.Stat(path) // opening a pipe would wait
	if err == nil && !info.Mode().IsRegular() && info.Mode().Type() != os.ModeDevice {
		err = fmt.Errorf("%s is neither a regular file nor a block device", path)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another program has %s locked", path), f.Close())
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && (size == 0 || size%sectorBytes != 0) {
		err = fmt.Errorf("%s has %d bytes, and a disk has a multiple of %d", path, size, sectorBytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &disk{f, size}, nil
}

func (d *disk) close() error { return d.file.Close() }

func (d *disk) wait(_ []*queue, limit time.Duration) { time.Sleep(limit) }

// step carries out one request. Its last writable byte is for the result.
func (d *disk) step(q []*queue) (busy bool, err error) {
	c, err := q[0].next()
	if c == nil || err != nil {
		return false, err
	}
	if len(c.request) < diskHeader || c.room < 1 {
		return false, errQueue
	}
	reply := make([]byte, c.room)
	reply[c.room-1] = d.answer(c.request[:diskHeader], c.request[diskHeader:], reply[:c.room-1])
	q[0].done(c, reply)
	return true, nil
}

// answer carries out a request with the data to write, or room for what is read. What the
// file can't do is an error of the disk for the kernel, not of the run.
func (d *disk) answer(header, data, room []byte) byte {
	kind, sector := binary.LittleEndian.Uint32(header), binary.LittleEndian.Uint64(header[8:])
	var err error
	switch kind {
	case diskRead:
		if !d.fits(sector, len(room)) || len(data) > 0 {
			return diskFailed
		}
		_, err = d.file.ReadAt(room, int64(sector)*sectorBytes)
	case diskWrite:
		if !d.fits(sector, len(data)) || len(room) > 0 {
			return diskFailed
		}
		_, err = d.file.WriteAt(data, int64(sector)*sectorBytes)
	case diskFlush:
		err = unix.Fdatasync(int(d.file.Fd()))
	case diskName:
		copy(room, "skep")
	default:
		return diskUnknown
	}
	if err != nil {
		return diskFailed
	}
	return diskDone
}

// fits reports whether so many bytes, whole sectors, are on the disk.
func (d *disk) fits(sector uint64, bytes int) bool {
	all := uint64(d.size) / sectorBytes
	return bytes%sectorBytes == 0 && sector <= all && uint64(bytes)/sectorBytes <= all-sector
}
