// SPDX-License-Identifier: MIT

// Package wire is the protocol between a lab's host and process 1 of its guest: the
// description of the machine, a file of the initramfs, and messages on the streams of the
// virtio-serial port. Each stream begins with one request, a length and JSON; frames of
// grid/proto follow it.
//
// A guest may be hostile, so this package limits what the host reads.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// Port is the name of the virtio-serial port.
	Port = "skep"
	// ConfigFile is where the initramfs keeps the Config.
	ConfigFile = "/machine.json"
	// MessageMax bounds the JSON of a request or a hello.
	MessageMax = 1 << 20
	// Window is the number of unacknowledged frames of standard input. The
	// guest acknowledges each frame that the program has read by an empty frame
	// of the same type. So a program that does not read never blocks its
	// stream, which also carries signals and the end of the run.
	Window = 8
	// InputMax is the largest payload of a frame of standard input.
	InputMax = 16 << 10
)

// A Config describes the machine to its process 1.
type Config struct {
	Name         string
	Release      string   // of the kernel that must be running
	Root         []string // module files of the initramfs that the root needs, in order
	Tree         string   // this computer's lib/modules/<release> of that kernel
	Build        string   // this computer's build folder, visible in the guest
	Modules      []Module // loaded in this order when the root is mounted
	Swap         []string // disks for swap space, as /dev/vdb
	Address      string   // of the wire, with its prefix length; empty: no wire
	Hosts        []string // lines of /etc/hosts
	Nodes        int
	Delay        time.Duration // of each packet of a node
	Loss         float64       // share of a node's packets that is dropped
	TimeoutScale int           // factor for the timeouts of the kernel's watchdogs
}

// A Module is one of the kernel's own, by name, or a file of ours.
type Module struct {
	Name string
	File string // path on this computer; empty: the kernel's own
}

// A Hello is the guest's first message. It says that the guest is up, or why it is not.
type Hello struct {
	Failure string // the step that failed, and why; empty: none
	Release string
	CPUs    int
	Nodes   []NUMA
	Memory  int     // MiB
	Swap    int     // MiB
	Boot    float64 // seconds since the kernel's start
}

// NUMA is one memory node.
type NUMA struct {
	CPUs   string // as the kernel lists them: "0-1"
	Memory int    // MiB
}

// An Op is the operation of a request.
type Op string

// Run runs a program; exec frames follow. PowerOff and Reboot end the guest, which sends
// nothing more on the stream.
const (
	Run      Op = "run"
	PowerOff Op = "poweroff"
	Reboot   Op = "reboot"
)

// A Request is the first message of a stream.
type Request struct {
	Op       Op
	Program  Program
	Results  bool  // standard output goes to the results port
	Console  bool  // standard error goes to the console
	Terminal *Size // run it on a terminal of this size
}

// A Program is what to run in the guest.
type Program struct {
	Args []string
	Env  []string
	Dir  string
	User bool
	Node int
}

// A Size is the size of a terminal in characters.
type Size struct{ Rows, Columns uint16 }

// Bytes returns s as the payload of a frame.
func (s Size) Bytes() []byte {
	b := binary.LittleEndian.AppendUint16(nil, s.Rows)
	return binary.LittleEndian.AppendUint16(b, s.Columns)
}

// ParseSize decodes a payload made by Bytes.
func ParseSize(b []byte) (Size, error) {
	if len(b) != 4 {
		return Size{}, fmt.Errorf("a terminal size of %d bytes, want 4", len(b))
	}
	return Size{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:])}, nil
}

// A shell's exit statuses for a program that cannot be run, or is not found.
const (
	StatusCannot  = 126
	StatusMissing = 127
)

// Failure returns the payload of a FAILED frame: a status and a sentence.
func Failure(err error) []byte {
	status := byte(StatusCannot)
	if errors.Is(err, os.ErrNotExist) {
		status = StatusMissing
	}
	return append([]byte{status}, err.Error()...)
}

// ParseFailure decodes a payload made by Failure.
func ParseFailure(b []byte) (status int, reason string, err error) {
	if len(b) == 0 || b[0] != StatusCannot && b[0] != StatusMissing {
		return 0, "", errors.New("a failure without a status")
	}
	return int(b[0]), string(b[1:]), nil
}

// Write sends v as one message, in a single Write.
func Write(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > MessageMax {
		return fmt.Errorf("a message of %d bytes, at most %d: pass fewer or shorter arguments", len(data), MessageMax)
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// Read reads one message into v. It refuses unknown fields.
func Read(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MessageMax {
		return fmt.Errorf("a message of %d bytes, at most %d", n, MessageMax)
	}
	// The buffer grows as bytes arrive, so that a length alone costs no memory.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(n)); err != nil {
		return fmt.Errorf("the stream ended inside a message: %w", err)
	}
	d := json.NewDecoder(&data)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not a message: %w", err)
	}
	return nil
}

// Check returns an error for a request that our host would not send.
func (r *Request) Check() error {
	switch r.Op {
	case PowerOff, Reboot:
		return nil
	case Run:
	default:
		return fmt.Errorf("a request for %q", r.Op)
	}
	if len(r.Program.Args) == 0 || r.Program.Args[0] == "" {
		return fmt.Errorf("no program is named")
	}
	if r.Terminal != nil && r.Results {
		return fmt.Errorf("a program on a terminal has no separate results")
	}
	return nil
}
