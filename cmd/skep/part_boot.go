// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	"skep/internal/place"
	lent "skep/shimos/part"
)

type partBoot struct {
	on, cpus, memory       string
	kernel, initrd, append string
	module                 string
}

func (p *partBoot) options(f *cli.Flags) {
	f.StringVar(&p.on, "on", "", "the `PARTITION`, by name or number; not needed where there is one")
	f.StringVar(&p.cpus, "cpus", "", "instead of a partition: lend a `LIST` of CPUs until the kernel ends")
	f.StringVar(&p.memory, "mem", "", "with --cpus: `SIZE` of memory")
	f.StringVar(&p.kernel, "kernel", "", "boot this `FILE`, a bzImage; the running kernel's own by default")
	f.StringVar(&p.initrd, "initrd", "", "its initial file system: a `FILE` with a cpio archive that has /init")
	f.StringVar(&p.append, "append", "", "`WORDS` for the kernel's command line")
	f.StringVar(&p.module, "module", "", "the `FILE` of shimos_guest.ko for this kernel; searched for by default")
}

func (p *partBoot) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if p.initrd == "" {
		return f.Expectf("--initrd is expected: the kernel's files end with it, as there is no disk")
	}
	if (p.cpus == "") != (p.memory == "") || p.cpus != "" && p.on != "" {
		return f.Expectf("either --on, or --cpus and --mem are expected")
	}
	boot, err := p.readFiles()
	if err != nil {
		return err
	}
	lender, err := lent.NewLender()
	if err != nil {
		return partError(err)
	}
	end, err := p.boot(ctx, lender, boot)
	done := progressOf("stopping the kernel")
	closed := lender.Close()
	done()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.Join(closed, cli.Errorf(exitStopped, "the kernel was stopped"))
	case err != nil || closed != nil:
		return partError(errors.Join(err, closed))
	case end == lent.EndPanic:
		return cli.Errorf(cli.Failed, "the kernel ended: %s", end)
	}
	fmt.Fprintf(os.Stderr, "skep: the kernel ended: %s\n", end)
	return nil
}

// boot runs the kernel on the partition that is named, or on one of its own.
func (p *partBoot) boot(ctx context.Context, l *lent.Lender, b lent.Boot) (end lent.LinuxEnd, err error) {
	var id uint32
	if p.cpus != "" {
		var r lent.Request
		if r.CPUs, r.Memory, err = partSizes(p.cpus, p.memory); err != nil {
			return "", err
		}
		id, err = l.Create(r)
	} else {
		var i lent.Info
		i, err = onePartition(p.on)
		id = i.ID
	}
	if err != nil {
		return "", err
	}
	restore, err := quietTerminal(os.Stdin)
	if err != nil {
		return "", err
	}
	end, err = l.Run(ctx, id, b, os.Stdin, os.Stdout)
	return end, errors.Join(err, restore())
}

// quietTerminal makes a terminal give each key at once and show none, because the kernel
// shows them. Ctrl-C still ends the run.
func quietTerminal(in *os.File) (restore func() error, err error) {
	fd := int(in.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil { // no terminal
		return func() error { return nil }, nil
	}
	quiet := *modes
	quiet.Lflag &^= unix.ECHO | unix.ICANON
	quiet.Cc[unix.VMIN], quiet.Cc[unix.VTIME] = 1, 0
	restore = func() error { return unix.IoctlSetTermios(fd, unix.TCSETS, modes) }
	return restore, unix.IoctlSetTermios(fd, unix.TCSETS, &quiet)
}

// readFiles reads all that the kernel needs, and refuses what does not fit together.
func (p *partBoot) readFiles() (b lent.Boot, err error) {
	running, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return b, err
	}
	if p.kernel == "" {
		p.kernel = "/boot/vmlinuz-" + strings.TrimSpace(string(running))
	}
	if b.Kernel, err = readRegular(p.kernel); err != nil {
		return b, cli.Errorf(cli.Refused, "the kernel, which --kernel names: %v", err)
	}
	release, err := lent.KernelRelease(b.Kernel)
	if err != nil {
		return b, cli.Errorf(cli.Refused, "%s: %v", p.kernel, err)
	}
	user, err := readRegular(p.initrd)
	if err != nil {
		return b, cli.Errorf(cli.Refused, "the initial file system: %v", err)
	}
	module, err := p.readModule(release)
	if err != nil {
		return b, err
	}
	init, err := readOwn("linux-init")
	if err != nil {
		return b, err
	}
	b.Image, err = readOwn("linux-boot.image")
	b.Initrd, b.Command = lent.JoinArchives(user, lent.GuestFiles(init, module, nil)), p.append
	return b, err
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

// readModule reads the module that was built for a kernel.
func (p *partBoot) readModule(release string) ([]byte, error) {
	file := p.module
	if file == "" {
		file = findGuestModule(release)
	}
	if file == "" {
		return nil, cli.Errorf(cli.Refused, "there is no shimos_guest.ko for Linux %s: the package skep-dkms builds it, or make kmod for Debian's kernels", release)
	}
	if got := moduleRelease(file); got != release {
		return nil, cli.Errorf(cli.Refused, "%s is for Linux %q, and the kernel is %s", file, got, release)
	}
	return os.ReadFile(file)
}

// findGuestModule returns the path of the installed module, or of one that make built.
func findGuestModule(release string) string {
	const name = "shimos_guest"
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
