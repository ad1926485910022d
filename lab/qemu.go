// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"skep/lab/wire"
)

// Files of a machine's folder.
const (
	consoleFile = "console.log"
	resultsFile = "results.tap"
	emulator    = "qemu.log" // messages of QEMU itself
	outDir      = "out"
	countsFile  = "counts"
)

// Descriptors that QEMU inherits: the control channel, the initramfs, the disks, and the
// wire, if any.
const (
	controlFD   = 3
	initramfsFD = 4
	diskFD      = 5 // and up
)

func (m *Machine) wireFD() int { return diskFD + len(m.Disks) }

// fdPath returns a path by which QEMU opens a descriptor that it inherited.
func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// cpu is QEMU's CPU with four levels of page tables, like most computers. A fifth level
// would slow down every TLB miss in the emulator.
const cpu = "max,la57=off"

// emulatorLacks are features that a guest of the emulator does not see.
//
// A kernel that sees ERMS clears and copies memory byte by byte, since processors have made
// that quick. The emulator has not: pages take 1.6 times as long, and files 3.5 times.
//
// After CMPXCHG16B, QEMU 7.2's emulator may have a copy of RAX in the flags until the next
// instruction that sets them (docs/design/lab.md). Kernels allocate memory with it.
const emulatorLacks = ",erms=off,cx16=off"

// cpuModel returns the CPU model. The emulator's default is an old AMD model without
// hardware threads, so a machine with threads needs another.
func (m *Machine) cpuModel(accel string) string {
	model := cpu
	if m.Threads > 1 {
		model += ",vendor=GenuineIntel"
	}
	// Counts keep both, so that they compare with earlier ones.
	if strings.HasPrefix(accel, "tcg") && m.Count == nil {
		model += emulatorLacks
	}
	return model
}

func findQEMU() (string, error) {
	path, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return "", fmt.Errorf("QEMU is missing: run make setup (%w)", err)
	}
	return path, nil
}

// hardware is what QEMU's command line depends on besides the machine.
type hardware struct {
	accel   string // tcg or kvm
	image   string // the kernel
	mapping string // security model of /out: mapped-xattr or mapped-file
	scale   float64
	// processors is how many this computer has.
	processors int
}

// processorsMin is how many processors a computer must have for the emulator to run a machine's
// CPUs in parallel. On fewer, its threads mostly wait for one another: machines with four CPUs took
// a quarter to a third more processor time on two, and no less time.
const processorsMin = 4

// qemuArgs returns QEMU's command line. The 9p root has the security model "none": it is
// read-only, and QEMU has only the rights of the user who started it. For /out the model
// is mapped: owners, modes and file types are stored as metadata of plain files that the
// user owns. So a guest can create neither a setuid program nor a device there.
func (m *Machine) qemuArgs(h hardware) ([]string, error) {
	in := func(name string) string { return filepath.Join(m.dir(), name) }
	accel, line := h.accel, m.commandLine(h)
	if accel == "tcg" {
		accel = "tcg,thread=multi"
		if m.InTurns || m.Count != nil && m.Count.Steady || h.processors < processorsMin {
			accel = "tcg,thread=single"
		}
		// The emulator translates code once for each address at which it runs, so programs
		// have fixed addresses: starting one costs a third.
		line = "norandmaps " + line
	}
	args := []string{
		"-name", "skep-" + m.Name, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "pc", "-accel", accel, "-cpu", m.cpuModel(accel),
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.CPUs, m.NUMA, m.CPUs/m.NUMA/m.Threads, m.Threads),
		"-m", strconv.Itoa(m.Memory),
		"-kernel", h.image, "-initrd", fdPath(initramfsFD), "-append", line,
		"-chardev", "file,id=console,append=on,path=" + in(consoleFile), "-serial", "chardev:console",
		"-chardev", "file,id=results,append=on,path=" + in(resultsFile), "-serial", "chardev:results",
		"-device", "virtio-serial-pci,max_ports=2",
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", controlFD),
		"-device", "virtserialport,chardev=control,name=" + wire.Port,
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
		"-fsdev", "local,id=out,path=" + in(outDir) + ",security_model=" + h.mapping + ",fmode=0644,dmode=0755",
		"-device", "virtio-9p-pci,fsdev=out,mount_tag=out",
	}
	args = append(args, m.numaArguments()...)
	for i := range m.Disks {
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=disk%d,format=raw,cache=unsafe,werror=report,file=%s", i, fdPath(diskFD+i)),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d", i))
	}
	if m.Wire != nil {
		args = append(args,
			"-netdev", fmt.Sprintf("dgram,id=wire,local.type=fd,local.str=%d", m.wireFD()),
			"-device", "virtio-net-pci,netdev=wire,romfile=,mac="+m.Wire.mac())
	}
	if m.Count == nil {
		return args, nil
	}
	count, err := m.Count.qemuArgs(in(countsFile))
	return append(args, count...), err
}

func (m *Machine) numaArguments() (args []string) {
	if m.NUMA == 1 {
		return nil
	}
	cpus := m.CPUs / m.NUMA
	for n := range m.NUMA {
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", n, m.Memory/m.NUMA),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=memory%d,cpus=%d-%d", n, n, n*cpus, (n+1)*cpus-1))
	}
	return args
}

// commandLine returns the kernel's command line. A fixed text address (nokaslr) lets a
// counter use System.map's addresses unchanged, and makes two runs comparable. On a loaded
// computer the emulator may lose ticks, so checks of clock sources are off and watchdogs
// wait longer. Self-tests of ciphers are off to shorten the boot.
func (m *Machine) commandLine(h hardware) string {
	words := []string{
		"console=ttyS0", "loglevel=5", "panic=-1", "nokaslr", "tsc=reliable", "no_timer_check",
		"cryptomgr.notests", "nmi_watchdog=0", fmt.Sprintf("rcupdate.rcu_cpu_stall_timeout=%d", min(300, int(60*h.scale))),
	}
	if strings.HasSuffix(m.Kernel, debugSuffix) {
		// Finding a device's interrupt by ACPI takes half a minute and fails; our
		// devices use MSI-X instead.
		words = append(words, "acpi=noirq")
	}
	if m.Append != "" {
		words = append(words, m.Append)
	}
	return strings.Join(words, " ")
}
