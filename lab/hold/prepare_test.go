// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/lab/wire"
)

// moduleFile creates an object with a section .modinfo, which may be beyond the end of the
// file.
func moduleFile(t *testing.T, info string, behind uint64) string {
	t.Helper()
	const names = "\x00.modinfo\x00.shstrtab\x00"
	const head = 64
	text := []any{
		elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: head,
			Shoff: head + uint64(len(info)+len(names)), Shentsize: 64, Shnum: 3, Shstrndx: 2,
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1}},
		[]byte(info), []byte(names), elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: head + behind, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: head + uint64(len(info)), Size: uint64(len(names))},
	}
	var b bytes.Buffer
	for _, part := range text {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "x.ko")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The modules that a module needs are read from its file. The error for a truncated file
// names it.
func TestModuleNeedsOthers(t *testing.T) {
	needs, err := moduleDeps(moduleFile(t, "license=GPL\x00depends=veth,bridge\x00", 0))
	if err != nil || !slices.Equal(needs, []string{"veth", "bridge"}) {
		t.Errorf("%q, %v", needs, err)
	}
	cut := moduleFile(t, "depends=veth\x00", 1<<20)
	if needs, err := moduleDeps(cut); err == nil || !strings.Contains(err.Error(), cut) {
		t.Errorf("a module that was cut: %q, %v", needs, err)
	}
}

// An ending is a guest whose programs end with a status.
type ending struct {
	*fake
	status uint32
}

func (g ending) Stream(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		var r wire.Request
		if wire.Read(theirs, &r) != nil {
			return
		}
		buf := make([]byte, proto.ExecFrameMax)
		for {
			if kind, p, err := proto.ReadExec(theirs, buf); err != nil || kind == proto.ExecStdin && len(p) == 0 {
				break
			}
			proto.WriteExec(theirs, proto.ExecStdin, nil)
		}
		proto.WriteExec(theirs, proto.ExecStderr, []byte("no room"))
		proto.WriteExec(theirs, proto.ExecExit, binary.LittleEndian.AppendUint32(nil, g.status))
	}()
	return ours, nil
}

// A machine is not up if its modprobe cannot be configured for our modules.
func TestGuestLearnsOfOurModules(t *testing.T) {
	for status, want := range map[uint32]string{0: "", 3: `status 3: "no room"`} {
		err := installModules(t.Context(), ending{&fake{}, status}, "install x /sbin/insmod /x.ko\n")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if err := installModules(t.Context(), ending{&fake{}, 3}, ""); err != nil {
		t.Errorf("nothing to tell: %v", err)
	}
}

// The working directory of a holder is /, so that it keeps no file system of its user busy.
func TestHolderLivesInTheRoot(t *testing.T) {
	pid := holderOf(t, mustStart(t, deepFolder(t), "one"))
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
		t.Errorf("%q, %v", dir, err)
	}
}

// Machines of another user are reported as such, not as "none".
func TestMachinesOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	build, err := os.MkdirTemp("/tmp", "hold") // other users can reach it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(build)
	if err := withLock(build, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(build, 0o755); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		unix.Setfsuid(65534)
		failed <- withLock(build, func() error { return nil })
	}()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("%v", err)
	}
}
