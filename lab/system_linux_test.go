// SPDX-License-Identifier: MIT

package lab

import (
	"path/filepath"
	"strings"
	"testing"
)

// A system's disk keeps no change, its files are read-only, and only the emulator gets the
// settings that avoid its faults.
func TestSystemArgs(t *testing.T) {
	m, err := Machine{Name: "s", Build: t.TempDir(), CPUs: 3, Memory: 512, Append: "quiet"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := System{Initramfs: "/initrd", Disk: "/disk", Files: "/files"}
	for _, tt := range []struct {
		accel         string
		want, wantNot []string
	}{
		{"tcg", []string{"-accel tcg,thread=single ", ",smap=off,erms=off,cx16=off ", "cache=unsafe,werror=report,format=raw,snapshot=on,file=/disk ", "readonly=on,file=/files ",
			"-smp 3 ", "-m 512 ", "-append root=/dev/vda rw ", " quiet "}, []string{"-no-reboot", "-S", "-loadvm"}},
		{"kvm", []string{"-accel kvm ", "cache=unsafe,werror=report,format=raw,snapshot=on,file=/disk "}, []string{"smap", "erms", "cx16", "thread=single"}},
	} {
		line := strings.Join(m.systemArgs(s, hardware{accel: tt.accel, image: "/vmlinux", scale: 1}), " ") + " "
		for _, w := range tt.want {
			if !strings.Contains(line, w) {
				t.Errorf("%s: %q is not in %s", tt.accel, w, line)
			}
		}
		for _, w := range tt.wantNot {
			if strings.Contains(line, w) {
				t.Errorf("%s: %q is in %s", tt.accel, w, line)
			}
		}
	}
}

// The changes of a system with Saves go to that file, which is made when QEMU waits. If it
// is there, the system goes on from what was saved.
func TestSystemArgs_saves(t *testing.T) {
	m, err := Machine{Name: "s", Build: t.TempDir(), CPUs: 3, Memory: 512}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := System{Disk: "/disk", Saves: filepath.Join(t.TempDir(), "saves")}
	argsOf := func() string {
		return strings.Join(m.systemArgs(s, hardware{accel: "tcg", scale: 1}), " ") + " "
	}
	first := argsOf()
	if strings.Contains(first, "snapshot=on") || strings.Contains(first, "-loadvm") || !strings.Contains(first, "format=raw,file=/disk ") || !strings.Contains(first, " -S ") {
		t.Error(first)
	}
	plantFile(t, s.Saves, "")
	if again := argsOf(); !strings.Contains(again, "format=qcow2,file="+s.Saves+" ") || !strings.Contains(again, " -loadvm saved ") {
		t.Error(again)
	}
}

// A system that cannot start frees its folder, and names what is missing.
func TestStartSystem_withoutKernel(t *testing.T) {
	build := t.TempDir()
	for range 2 {
		if _, err := StartSystem(t.Context(), System{Name: "s", Build: build, Kernel: "/nowhere/vmlinuz"}); err == nil || !strings.Contains(err.Error(), "/nowhere/vmlinuz") {
			t.Fatal(err)
		}
	}
}
