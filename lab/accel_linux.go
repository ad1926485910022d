// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// probeLimit is the time limit of the test whether KVM works.
const probeLimit = 10 * time.Second

// chooseAccel chooses QEMU's accelerator: SKEP_ACCEL if it is set, else KVM if a stock
// kernel boots under it, else the emulator (TCG). Instructions can be counted only in the
// emulator.
func (m *Machine) chooseAccel(ctx context.Context, qemu, image string) (string, error) {
	switch want := os.Getenv("SKEP_ACCEL"); {
	case want != "" && want != "tcg" && want != "kvm":
		return "", fmt.Errorf("SKEP_ACCEL is %q: set tcg or kvm, or nothing", want)
	case m.Count != nil && want == "kvm":
		return "", fmt.Errorf("instructions can be counted only under tcg: unset SKEP_ACCEL")
	case m.Count != nil:
		return "tcg", nil
	case want != "":
		return want, nil
	}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "tcg", nil
	}
	kvm.Close()
	return cachedProbe(ctx, filepath.Join(m.Build, "lab", ".accel"), qemu, image)
}

// cachedProbe runs canBoot once per boot of this computer. It caches the result in file:
// one line with the boot's id and the answer.
func cachedProbe(ctx context.Context, file, qemu, image string) (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	boot := strings.TrimSpace(string(id))
	known, _ := os.ReadFile(file)
	if f := strings.Fields(string(known)); len(f) == 2 && f[0] == boot && (f[1] == "kvm" || f[1] == "tcg") {
		return f[1], nil
	}
	answer := "tcg"
	if canBoot(ctx, qemu, image) {
		answer = "kvm"
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return answer, os.WriteFile(file, []byte(boot+" "+answer+"\n"), 0o644)
}

// canBoot reports whether a kernel boots under KVM until it panics because it has no root
// file system. This panic ends QEMU without an error.
func canBoot(ctx context.Context, qemu, image string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	var said Limited
	cmd := exec.Command(qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc", "-accel", "kvm", "-cpu", cpu, "-smp", "2", "-m", "256",
		"-kernel", image, "-append", "console=ttyS0 panic=-1", "-serial", "stdio")
	cmd.Stdout = &said
	p, err := startProcess(cmd)
	if err != nil {
		return false
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.kill()
		<-p.done
		return false
	}
	return p.err == nil && strings.Contains(string(said), "Kernel panic - not syncing: VFS")
}

// mapOwners returns the 9p security model for dir, which decides where QEMU stores the
// guest's owners and modes: in extended attributes if the file system has them, else in
// separate files.
func mapOwners(dir string) string {
	const probe = "user.skep.probe"
	if err := syscall.Setxattr(dir, probe, []byte("1"), 0); err != nil {
		return "mapped-file"
	}
	syscall.Removexattr(dir, probe)
	return "mapped-xattr"
}
