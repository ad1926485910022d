// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"skep/internal/load"
	"skep/lab/wire"
)

// A System describes a machine that boots an installed system from a disk: with the
// system's own kernel and initramfs, and its own process 1. Unlike a Guest it does not see
// this computer's files. Its changes of the disk are lost when the machine ends, but not at
// a reboot. With Saves they stay there, and a machine that Save has saved goes on from there.
type System struct {
	Name, Build string // as those of a Machine
	Kernel      string // files of this computer
	Initramfs   string
	Disk        string // /dev/vda; raw
	Files       string // /dev/vdb; read-only
	Saves       string // a file for the changes of the disk and saved machines, or ""
	Append      string // added to the kernel's command line
	CPUs        int
	Memory      int // MiB
}

// A RunningSystem is a System that was started. Its folder holds console.log.
type RunningSystem struct {
	Port    net.Conn // the virtio-serial port "skep"
	monitor *monitor // with Saves
	dir     string
	lock    *os.File
	process *process
}

// StartSystem starts a system, and returns before it has booted.
func StartSystem(ctx context.Context, s System) (*RunningSystem, error) {
	m, err := Machine{Name: s.Name, Build: s.Build, CPUs: s.CPUs, Memory: s.Memory, InTurns: true, Append: s.Append}.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &RunningSystem{dir: m.dir()}
	if r.lock, err = claimDir(r.dir); err != nil {
		return nil, err
	}
	if err := r.start(ctx, &m, s); err != nil {
		r.lock.Close()
		return nil, fmt.Errorf("system %q: %w", m.Name, err)
	}
	return r, nil
}

func (r *RunningSystem) start(ctx context.Context, m *Machine, s System) error {
	qemu, err := findQEMU()
	if err != nil {
		return err
	}
	image, err := r.unpackKernel(s.Kernel)
	if err != nil {
		return err
	}
	accel, err := m.chooseAccel(ctx, qemu, image)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.dir, emulator))
	if err != nil {
		return err
	}
	defer log.Close()
	conn, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(qemu, m.systemArgs(s, hardware{accel: accel, image: image, scale: load.Scale()})...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + r.dir}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	var control net.Conn
	if s.Saves != "" {
		var monitor *os.File
		if control, monitor, err = socketPair(); err != nil {
			conn.Close()
			return err
		}
		defer monitor.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, monitor)
	}
	if r.process, err = startProcess(cmd); err != nil {
		conn.Close()
		return err
	}
	r.Port = conn
	if s.Saves == "" {
		return nil
	}
	if err := r.openSaves(control, s.Saves); err != nil {
		r.process.kill()
		conn.Close()
		return err
	}
	return nil
}

// The name of the saved machine in Saves, and of the disk.
const savedTag, diskID = "saved", "disk"

// openSaves lets the changes of the disk of a machine that waits go to a new file, and
// starts it.
func (r *RunningSystem) openSaves(control net.Conn, saves string) (err error) {
	if r.monitor, err = openMonitor(control); err != nil {
		return err
	}
	if !exists(saves) {
		if _, err := r.monitor.execute("blockdev-snapshot-sync", map[string]string{
			"device": diskID, "snapshot-file": saves, "format": "qcow2"}); err != nil {
			return err
		}
	}
	_, err = r.monitor.execute("cont", nil)
	return err
}

// Save saves the running machine in Saves, in place of what was saved before. A machine
// that StartSystem starts with that file goes on from there.
func (r *RunningSystem) Save() error { return r.monitor.typeLine("savevm " + savedTag) }

// unpackKernel writes the ELF file inside a compressed kernel, which QEMU boots faster.
func (r *RunningSystem) unpackKernel(packed string) (string, error) {
	data, err := os.ReadFile(packed)
	if err != nil {
		return "", err
	}
	plain, err := UnpackImage(data)
	if errors.Is(err, errPacking) {
		return packed, nil
	}
	if err != nil {
		return "", fmt.Errorf("unpack %s: %w", packed, err)
	}
	path := filepath.Join(r.dir, "vmlinux")
	return path, os.WriteFile(path, plain, 0o600)
}

// systemArgs returns QEMU's command line for a system. QEMU 7.2's emulator runs an iret of
// user space, as bee has it, with the kernel's rights; SMAP would make an oops of it.
func (m *Machine) systemArgs(s System, h hardware) []string {
	model := cpu
	accel := h.accel
	if accel == "tcg" {
		model += ",smap=off" + emulatorLacks
		accel = "tcg,thread=single"
	}
	args := []string{
		"-name", "skep-" + m.Name, "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "pc", "-accel", accel, "-cpu", model, "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.Memory),
		"-kernel", h.image, "-initrd", s.Initramfs, "-append", "root=/dev/vda rw " + m.commandLine(h),
		"-chardev", "file,id=console,append=on,path=" + filepath.Join(m.dir(), consoleFile), "-serial", "chardev:console",
		"-device", "virtio-serial-pci,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", controlFD),
		"-device", "virtserialport,chardev=control,name=" + wire.Port,
		"-drive", "if=none,id=" + diskID + ",cache=unsafe,werror=report," + s.diskFile(), "-device", "virtio-blk-pci,drive=" + diskID,
		"-drive", "if=none,id=files,format=raw,readonly=on,file=" + s.Files, "-device", "virtio-blk-pci,drive=files",
	}
	if s.Saves == "" {
		return args
	}
	args = append(args, "-S", "-chardev", fmt.Sprintf("socket,id=monitor,fd=%d", monitorFD), "-mon", "chardev=monitor,mode=control")
	if exists(s.Saves) {
		args = append(args, "-loadvm", savedTag)
	}
	return args
}

// monitorFD is the descriptor of the monitor that QEMU inherits.
const monitorFD = controlFD + 1

func (s *System) diskFile() string {
	switch {
	case s.Saves == "":
		return "format=raw,snapshot=on,file=" + s.Disk
	case exists(s.Saves):
		return "format=qcow2,file=" + s.Saves
	}
	return "format=raw,file=" + s.Disk
}

// Console returns the path of the system's console log.
func (r *RunningSystem) Console() string { return filepath.Join(r.dir, consoleFile) }

// Done is closed when the machine has ended.
func (r *RunningSystem) Done() <-chan struct{} { return r.process.done }

// Kill ends the machine at once, if it runs, and frees its folder. The console log stays.
func (r *RunningSystem) Kill() {
	r.process.kill()
	<-r.process.done
	r.Port.Close()
	if r.monitor != nil {
		r.monitor.conn.Close()
	}
	os.Remove(filepath.Join(r.dir, "vmlinux"))
	r.lock.Close()
}
