// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	"skep/internal/place"
	"skep/lab"
	lent "skep/shimos/part"
)

type partBoot struct {
	bootOrder
	detach bool
}

// A bootOrder is what kernel to boot, and where.
type bootOrder struct {
	On, CPUs, Memory, Name string
	Kernel, Initrd, Append string
	Module, Modules, Root  string
	Net                    bool
	Address                string // of this Linux on the link; empty: any
	Disk                   string
	Command                []string
}

func (p *partBoot) options(f *cli.Flags) {
	f.StringVar(&p.On, "on", "", "the `PARTITION`, by name or number; not needed where there is one")
	f.StringVar(&p.CPUs, "cpus", "", "instead of a partition: lend a `LIST` of CPUs until the kernel ends")
	f.StringVar(&p.Memory, "mem", "", "with --cpus: `SIZE` of memory")
	f.StringVar(&p.Name, "name", "", "with --cpus: call the partition `NAME`")
	f.StringVar(&p.Kernel, "kernel", "", "boot this `FILE`, a bzImage; the running kernel's own by default")
	f.StringVar(&p.Initrd, "initrd", "", "its initial file system: a `FILE` with a cpio archive that has /init")
	f.StringVar(&p.Root, "root", "", "instead of --initrd: its root file system, a `FOLDER` of this Linux, which it may change")
	f.StringVar(&p.Modules, "modules", "", "with --root, --net or --disk: the `FOLDER` of that kernel's modules; /lib/modules/RELEASE by default")
	f.BoolVar(&p.Net, "net", false, "a network link between the two kernels; the interface here is skepN, N being the partition's number")
	f.StringVar(&p.Address, "address", "", "with --net: the `ADDRESS` of this Linux on the link, like 10.9.8.1/30; one of 169.254.64.0/18 by default")
	f.StringVar(&p.Disk, "disk", "", "a disk for it, /dev/vda there: a `FILE` or block device of this Linux, which it may write to")
	f.StringVar(&p.Append, "append", "", "`WORDS` for the kernel's command line")
	f.StringVar(&p.Module, "module", "", "the `FILE` of shimos_guest.ko for this kernel; searched for by default")
	f.BoolVar(&p.detach, "detach", false, "return as soon as it has a console, which skep part console shows")
}

func (p *partBoot) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := p.check(f, words); err != nil {
		return err
	}
	if p.detach {
		return p.startHolder(ctx)
	}
	boot, err := p.readFiles()
	if err != nil {
		return err
	}
	lender, err := lent.NewLender()
	if err != nil {
		return partError(err)
	}
	end, lost, err := p.boot(ctx, lender, boot)
	done := progressOf("stopping the kernel")
	closed := lender.Close()
	done()
	note, err := bootEnd(end, err, closed)
	note = joinNotes(note, lost)
	if note != "" {
		fmt.Fprintln(os.Stderr, "skep: "+note)
	}
	return err
}

// bootEnd turns the end of a kernel into that of its command, and a note without an error.
func bootEnd(end lent.LinuxEnd, err, closed error) (note string, _ error) {
	var failed *lent.ProgramError
	switch {
	case errors.As(err, &failed) && closed == nil:
		return "", cli.Exit(failed.Code)
	case errors.Is(err, context.Canceled):
		return "", errors.Join(closed, cli.Errorf(exitStopped, "the kernel was stopped"))
	case err != nil || closed != nil:
		return "", partError(errors.Join(err, closed))
	case end == lent.EndPanic:
		return "", cli.Errorf(cli.Failed, "the kernel ended: %s", end)
	case end == lent.EndProgram:
		return "", nil
	}
	return fmt.Sprintf("the kernel ended: %s", end), nil
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// check refuses words that say nothing, or two things.
func (p *partBoot) check(f *cli.Flags, words []string) error {
	if err := p.checkFiles(f, words); err != nil {
		return err
	}
	switch {
	case (p.CPUs == "") != (p.Memory == "") || p.CPUs != "" && p.On != "":
		return f.Expectf("either --on, or --cpus and --mem are expected")
	case p.Name != "" && p.CPUs == "":
		return f.Expectf("--name is for a partition that is made by --cpus")
	case p.Address != "" && !p.Net:
		return f.Expectf("--address is for --net alone")
	}
	if _, err := p.address(); err != nil {
		return f.Expectf("--address: %v", err)
	}
	return nil
}

// address returns the address that is wanted for this Linux; an invalid one is none.
func (p *bootOrder) address() (a netip.Prefix, err error) {
	if p.Address == "" {
		return a, nil
	}
	if a, err = netip.ParsePrefix(p.Address); err != nil {
		return a, fmt.Errorf("%q is no address with the length of its network, as 10.9.8.1/30 is", p.Address)
	}
	_, _, err = lent.LinkAddresses(0, a)
	return a, err
}

// checkFiles refuses words that say nothing, or two things, about the kernel's files.
func (p *partBoot) checkFiles(f *cli.Flags, words []string) error {
	switch {
	case p.Initrd == "" && p.Root == "":
		return f.Expectf("--root or --initrd is expected: the first files of the kernel come from there, also with --disk")
	case p.Initrd != "" && p.Root != "":
		return f.Expectf("either --root or --initrd is expected")
	case !p.hasDevices() && p.Modules != "":
		return f.Expectf("--modules is for --root, --net and --disk alone")
	case p.Root == "":
		return f.RefuseArgs(words)
	case len(words) > lent.MostWords || len(strings.Join(words, " ")) >= lent.MostText:
		return f.Expectf("a program with at most %d words of %d bytes together is expected", lent.MostWords, lent.MostText-1)
	}
	p.Command = words
	return nil
}

// boot runs the kernel with the console on the standard streams.
func (p *partBoot) boot(ctx context.Context, l *lent.Lender, b lent.Boot) (end lent.LinuxEnd, lost string, err error) {
	i, err := p.partition(l)
	if err != nil {
		return "", "", err
	}
	ctx, stop := catchEnds(ctx)
	defer stop()
	restore, err := quietTerminal(os.Stdin, false)
	if err != nil {
		return "", "", err
	}
	t := lent.NewStreams(ctx, os.Stdin, os.Stdout)
	if isTerminal(os.Stdin) {
		t.Window = func() (rows, columns uint16) {
			size, _ := terminalSize(os.Stdin) // 0: not known
			return size.Rows, size.Columns
		}
	}
	end, lost, err = p.runLinked(ctx, l, i.ID, b, t)
	return end, lost, errors.Join(err, restore())
}

// runLinked runs the kernel with its link, if it gets one, and says what that lost.
func (p *bootOrder) runLinked(ctx context.Context, l *lent.Lender, id uint32, b lent.Boot, t lent.Terminal) (end lent.LinuxEnd, lost string, err error) {
	if !p.Net {
		end, err = l.Run(ctx, id, b, t)
		return end, "", err
	}
	address, err := p.address()
	if err != nil {
		return "", "", err
	}
	if b.Link, err = lent.NewLink(id, address); err != nil {
		return "", "", err
	}
	fmt.Fprintf(os.Stderr, "skep: the link %s: %s here, %s in the kernel\n", b.Link.Name, b.Link.Here.Addr(), b.Link.There.Addr())
	end, err = l.Run(ctx, id, b, t)
	return end, b.Link.Losses(), errors.Join(err, b.Link.Close())
}

// catchEnds returns a context that ends with each signal that would end the process while
// its terminal is not as it was. A closed output is an error of a write.
func catchEnds(ctx context.Context) (context.Context, func()) {
	signal.Ignore(syscall.SIGPIPE)
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
}

// partition returns the partition that is named, or makes one.
func (p *bootOrder) partition(l *lent.Lender) (i lent.Info, err error) {
	if p.CPUs == "" {
		return onePartition(p.On)
	}
	r := lent.Request{Name: p.Name}
	if r.CPUs, r.Memory, err = partSizes(p.CPUs, p.Memory); err != nil {
		return i, err
	}
	i.Name = p.Name
	i.ID, err = l.Create(r)
	return i, err
}

// quietTerminal makes a terminal give each key at once and show none, because the kernel
// shows them. If it is raw, also Ctrl-C is a key; the ends of lines in the output are still
// the terminal's affair.
func quietTerminal(in *os.File, raw bool) (restore func() error, err error) {
	fd := int(in.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil { // no terminal
		return func() error { return nil }, nil
	}
	quiet := *modes
	quiet.Lflag &^= unix.ECHO | unix.ICANON
	if raw {
		passKeys(&quiet)
	}
	quiet.Cc[unix.VMIN], quiet.Cc[unix.VTIME] = 1, 0
	restore = func() error { return unix.IoctlSetTermios(fd, unix.TCSETS, modes) }
	return restore, unix.IoctlSetTermios(fd, unix.TCSETS, &quiet)
}

// readFiles reads all that the kernel needs, and refuses what does not fit together.
func (p *bootOrder) readFiles() (b lent.Boot, err error) {
	running, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return b, err
	}
	if p.Kernel == "" {
		p.Kernel = "/boot/vmlinuz-" + strings.TrimSpace(string(running))
	}
	if b.Kernel, err = readRegular(p.Kernel); err != nil {
		return b, cli.Errorf(cli.Refused, "the kernel, which --kernel names: %v", err)
	}
	release, err := lent.KernelRelease(b.Kernel)
	if err != nil {
		return b, cli.Errorf(cli.Refused, "%s: %v", p.Kernel, err)
	}
	if b.Initrd, err = p.readInitrd(release); err != nil {
		return b, err
	}
	b.Image, err = readOwn("linux-boot.image")
	b.Command, b.Files, b.Disk = p.Append, p.Root, p.Disk
	if len(p.Command) > 0 {
		b.Command += " quiet" // the output is the program's
	}
	return b, err
}

// readInitrd returns the kernel's initial file system: the user's and what is ours.
func (p *bootOrder) readInitrd(release string) ([]byte, error) {
	var user []byte
	var devices *lent.Devices
	var err error
	if p.Root == "" {
		if user, err = readRegular(p.Initrd); err != nil {
			return nil, cli.Errorf(cli.Refused, "the initial file system: %v", err)
		}
	}
	if p.hasDevices() {
		if devices, err = p.readDevices(release); err != nil {
			return nil, err
		}
	}
	module, err := readGuestModule("shimos_guest", p.Module, release)
	if err != nil {
		return nil, err
	}
	init, err := readOwn("linux-init")
	if err != nil {
		return nil, err
	}
	return lent.JoinArchives(user, lent.GuestFiles(init, module, devices)), nil
}

func (p *bootOrder) hasDevices() bool { return p.Root != "" || p.Net || p.Disk != "" }

// readDevices reads what a kernel needs for its devices, and checks the folder that is its
// root.
func (p *bootOrder) readDevices(release string) (*lent.Devices, error) {
	names, what := []string{"virtio", "virtio_ring"}, []string{}
	if p.Root != "" {
		info, err := os.Stat(p.Root)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", p.Root)
		}
		if err != nil {
			return nil, cli.Errorf(cli.Refused, "the root: %v", err)
		}
		names, what = append(names, "9pnet_virtio", "9p"), append(what, "9p")
	}
	if p.Net {
		names, what = append(names, "virtio_net"), append(what, "virtio_net")
	}
	if p.Disk != "" {
		names, what = append(names, "virtio_blk"), append(what, "virtio_blk")
	}
	dir := p.Modules
	if dir == "" {
		dir = filepath.Join("/lib/modules", release)
	}
	files, err := lab.FindClosure(dir, names...)
	if err != nil {
		return nil, cli.Errorf(cli.Refused, "the kernel's %s, from the package linux-image-%s or the folder that --modules names: %v", strings.Join(what, " and "), release, err)
	}
	d := lent.Devices{Root: p.Root != "", Command: p.Command}
	for _, file := range files {
		module, err := lab.ReadModule(file)
		if err != nil {
			return nil, cli.Errorf(cli.Refused, "%v", err)
		}
		d.Modules = append(d.Modules, module)
	}
	d.Transport, err = readGuestModule("shimos_virtio", "", release)
	return &d, err
}

// readRegular reads a whole file. A device or a pipe may have no end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func readOwn(name string) ([]byte, error) {
	path, err := place.FindFile(name)
	if err != nil {
		return nil, cli.Errorf(cli.Refused, "a part of skep: %v", err)
	}
	return os.ReadFile(path)
}

// readGuestModule reads one of our modules that was built for a kernel: a file, or the one
// that is found.
func readGuestModule(name, file, release string) ([]byte, error) {
	if file == "" {
		file = findGuestModule(name, release)
	}
	if file == "" {
		return nil, cli.Errorf(cli.Refused, "there is no %s.ko for Linux %s: the package skep-dkms builds it, or make kmod for Debian's kernels", name, release)
	}
	if got := moduleRelease(file); got != release {
		return nil, cli.Errorf(cli.Refused, "%s is for Linux %q, and the kernel is %s", file, got, release)
	}
	return os.ReadFile(file)
}

// findGuestModule returns the path of the installed module, or of one that make built.
func findGuestModule(name, release string) string {
	list := []string{filepath.Join("/lib/modules", release, "updates", "dkms", name+".ko")}
	if self, err := os.Executable(); err == nil {
		build := filepath.Dir(filepath.Dir(self))
		built, _ := filepath.Glob(filepath.Join(build, "kmod", "*", name, name+".ko")) // the pattern is well-formed
		list = append(list, built...)
	}
	for _, file := range list {
		if moduleRelease(file) == release {
			return file
		}
	}
	return ""
}
