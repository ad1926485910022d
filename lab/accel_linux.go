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

// probeLimit bounds the search for a KVM that works.
const probeLimit = 10 * time.Second

// chooseAccel chooses how QEMU runs the guest: SKEP_ACCEL where it is set, else KVM
// where a stock kernel was seen to boot under it, else the emulator. Counts
// exist only in the emulator.
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

// cachedProbe asks once for each start of this computer; the file's line is
// the start's id and the answer.
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

// canBoot reports whether a kernel without a root gets far enough under KVM to miss it: the panic ends QEMU in order.
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

// mapOwners finds how the file system below dir can keep a guest's owners and
// modes: in attributes of a file, else in a file beside it.
func mapOwners(dir string) string {
	const probe = "user.skep.probe"
	if err := syscall.Setxattr(dir, probe, []byte("1"), 0); err != nil {
		return "mapped-file"
	}
	syscall.Removexattr(dir, probe)
	return "mapped-xattr"
}
