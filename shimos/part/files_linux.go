// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"fmt"
	"time"

	"skep/internal/uapi"
	"skep/shimos/ninep"
)

const leastReply = 11 // bytes: an error

// files serves a folder to the kernel on a partition.
type files struct{ server *ninep.Server }

// filesModel is a device of virtio's kind 9: the tag of its file system, with its length.
func filesModel(dir string) (m model, err error) {
	server, err := ninep.NewServer(dir)
	if err != nil {
		return m, &RefusedError{fmt.Sprintf("the root: %v", err)}
	}
	const kind, hasTag = 9, 1 << 0
	config := append(binary.LittleEndian.AppendUint16(nil, uint16(len(uapi.SkepLinuxTag))), uapi.SkepLinuxTag...)
	return model{"its files", kind, 1, hasTag, config, &files{server}}, nil
}

func (f *files) close() error { return f.server.Close() }

func (f *files) wait(_ []*queue, limit time.Duration) { time.Sleep(limit) }

// step answers one request.
func (f *files) step(q []*queue) (busy bool, err error) {
	c, err := q[0].next()
	if c == nil || err != nil {
		return false, err
	}
	if c.room < leastReply {
		return false, errQueue
	}
	reply, err := f.server.Answer(c.request, c.room)
	if err != nil {
		return false, err
	}
	q[0].done(c, reply)
	return true, nil
}
