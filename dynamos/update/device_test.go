// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// pipeDevice returns a device that reads data instead of the module's answers.
func pipeDevice(t *testing.T, data []byte) *Device {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ends[0]); unix.Close(ends[1]) })
	if n, err := unix.Write(ends[1], data); n != len(data) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return &Device{ends[0]}
}

func TestEventsReadsAllEvents(t *testing.T) {
	var b bytes.Buffer
	for i := range 3 {
		if err := binary.Write(&b, binary.LittleEndian, uapi.DynamosEvent{PID: int32(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := pipeDevice(t, b.Bytes()).Events()
	if err != nil || len(list) != 3 || list[0].PID != 1 || list[2].PID != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := pipeDevice(t, b.Bytes()[1:]).Events(); err == nil {
		t.Errorf("a part of a record is taken: %+v", list)
	}
}

// A device that always has more events does not hold its reader.
func TestEndlessEventsEnd(t *testing.T) {
	// Packets, so that a signal cuts no read short, as it does for /dev/zero.
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &Device{fds[0]}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		packet := make([]byte, 32*eventSize)
		for err := error(nil); err == nil || err == unix.EINTR; {
			_, err = unix.Write(fds[1], packet)
		}
	}()
	defer func() { d.Close(); <-ended; unix.Close(fds[1]) }()
	if list, err := d.Events(); err != nil || len(list) != 65536 {
		t.Errorf("%d events, %v", len(list), err)
	}
}

// Only the device says that there is no more; another one is refused.
func TestOtherDeviceIsRefused(t *testing.T) {
	d := pipeDevice(t, nil)
	_, info := d.Info(0)
	_, count := d.Count("fix", 0, 0)
	for what, err := range map[string]error{"info": info, "count": count} {
		var r *RefusedError
		if !errors.As(err, &r) || errors.Is(err, ErrNoMore) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestFileThatIsNoModuleIsNotLoaded(t *testing.T) {
	if fresh, err := Load(oneUpdate(), "skep_no_module", []byte("no module")); fresh || err == nil {
		t.Errorf("loaded: %v, %v", fresh, err)
	}
}
