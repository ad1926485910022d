// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

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
	return &Device{fd: ends[0]}
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
	d := &Device{fd: fds[0]}
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

// answerAs replaces the device by a module of a revision, and returns the revisions of the
// calls that it gets.
func answerAs(t *testing.T, module uint32) *[]uint32 {
	t.Helper()
	real, asked := ioctl, &[]uint32{}
	t.Cleanup(func() { ioctl = real })
	ioctl = func(_ int, _ uintptr, arg unsafe.Pointer) unix.Errno {
		*asked = append(*asked, *(*uint32)(arg))
		if *(*uint32)(arg) != module {
			return unix.EPROTO
		}
		return 0
	}
	return asked
}

// A module before there was the flag asks for no reason, so it is sent none.
func TestModuleThatAsksForNoReason(t *testing.T) {
	real := ioctl
	defer func() { ioctl = real }()
	var flags []uint32
	ioctl = func(_ int, number uintptr, arg unsafe.Pointer) unix.Errno {
		f := (*uapi.DynamosNamed)(arg).Flags // APPLY has its flags there too
		flags = append(flags, f)
		if number == uapi.DynamosIocRevert && f != 0 || f&uapi.DynamosObjectsLeft != 0 {
			return unix.EINVAL
		}
		return 0
	}
	d := &Device{}
	back := uint32(uapi.DynamosSupersede | uapi.DynamosBack)
	for what, err := range map[string]error{"revert": d.Revert("fix", true), "without a reason": d.Revert("fix", false),
		"back": d.Apply(&uapi.DynamosApply{Flags: back | uapi.DynamosObjectsLeft})} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if want := []uint32{uapi.DynamosObjectsExist, 0, 0, back | uapi.DynamosObjectsLeft, back}; !slices.Equal(flags, want) {
		t.Errorf("sent the flags %v, not %v", flags, want)
	}
}

// A module from before there were shares of users refuses them by a field that it does not
// know. Any other refusal keeps its text.
func TestModuleThatKnowsNoUnits(t *testing.T) {
	real := ioctl
	defer func() { ioctl = real }()
	text := ""
	ioctl = func(_ int, number uintptr, arg unsafe.Pointer) unix.Errno {
		if number == uapi.DynamosIocApply {
			copy((*uapi.DynamosApply)(arg).Why[:], text)
		} else {
			copy((*uapi.DynamosChange)(arg).Why[:], text)
		}
		return unix.EINVAL
	}
	d, share := &Device{}, uapi.DynamosPolicy{Rules: 2}
	share.Rule[1] = uapi.DynamosRule{Terms: uapi.DynamosShare, Share: 1, Per: uapi.DynamosPerCgroup}
	for _, c := range []struct {
		policy     uapi.DynamosPolicy
		text, want string
	}{
		{share, "rule 2: the reserved field is not zero", "next boot"},
		{share, "rule 2: a share must be 0 to 65536", "0 to 65536"},
		{uapi.DynamosPolicy{}, "the reserved field is not zero", "reserved"},
	} {
		text = c.text
		for what, err := range map[string]error{"policy": d.SetPolicy("fix", c.policy), "commit": d.CommitFor("fix", c.policy), "apply": d.Apply(&uapi.DynamosApply{Policy: c.policy})} {
			if !isRefused(err, c.want) {
				t.Errorf("%s: %q: %v", what, text, err)
			}
		}
	}
}

// After an upgrade the module of the former release stays loaded, since an update is in force.
// This skep shows, changes and reverts that update.
func TestModuleOfTheFormerRelease(t *testing.T) {
	asked := answerAs(t, formerRevision)
	d := &Device{}
	_, info := d.Info(0)
	_, count := d.Count("fix", 0, 0)
	for what, err := range map[string]error{"info": info, "count": count, "commit": d.Commit("fix"), "revert": d.Revert("fix", false),
		"policy": d.SetPolicy("fix", uapi.DynamosPolicy{}), "apply": d.Apply(&uapi.DynamosApply{Flags: uapi.DynamosSupersede})} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if want := []uint32{3, 2, 2, 2, 2, 2, 2}; !slices.Equal(*asked, want) {
		t.Errorf("asked in the revisions %v, not %v", *asked, want)
	}
	// What it would not understand is not sent.
	for what, err := range map[string]error{
		"commit with a policy": d.CommitFor("fix", uapi.DynamosPolicy{}),
		"back":                 d.Apply(&uapi.DynamosApply{Flags: uapi.DynamosSupersede | uapi.DynamosBack}),
	} {
		var r *RefusedError
		if !errors.As(err, &r) || !strings.Contains(err.Error(), "next boot") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(*asked); n != 7 {
		t.Errorf("%d calls reached the module", n)
	}
}

// A roll would end at its commit with a module of the former release, so none begins.
func TestModuleOfTheFormerReleaseTakesNoRolls(t *testing.T) {
	for revision, want := range map[uint32]string{formerRevision: "next boot", uapi.DynamosRevision: "", uapi.DynamosRevision + 1: "another version"} {
		answerAs(t, revision)
		if err := (&Device{}).TakesRolls(); (err == nil) != (want == "") || err != nil && !isRefused(err, want) {
			t.Errorf("revision %d: %v", revision, err)
		}
	}
}

// A module of any other revision is refused by name.
func TestModuleOfAnotherRelease(t *testing.T) {
	for _, module := range []uint32{0, formerRevision - 1, uapi.DynamosRevision + 1} {
		answerAs(t, module)
		d := &Device{}
		for range 2 {
			var r *RefusedError
			if _, err := d.Info(0); !errors.As(err, &r) || !strings.Contains(err.Error(), "another version") {
				t.Errorf("revision %d: %v", module, err)
			}
		}
	}
}
