// SPDX-License-Identifier: MIT

package lab

import (
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
		{"tcg", []string{"-accel tcg,thread=single ", ",smap=off ", "snapshot=on,werror=report,file=/disk ", "readonly=on,file=/files ",
			"-smp 3 ", "-m 512 ", "-append root=/dev/vda rw ", " quiet "}, []string{"-no-reboot"}},
		{"kvm", []string{"-accel kvm ", "snapshot=on,werror=report,file=/disk "}, []string{"smap", "thread=single"}},
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

// A system that cannot start frees its folder, and names what is missing.
func TestStartSystem_withoutKernel(t *testing.T) {
	build := t.TempDir()
	for range 2 {
		if _, err := StartSystem(t.Context(), System{Name: "s", Build: build, Kernel: "/nowhere/vmlinuz"}); err == nil || !strings.Contains(err.Error(), "/nowhere/vmlinuz") {
			t.Fatal(err)
		}
	}
}
