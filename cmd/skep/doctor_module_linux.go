// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// loadCure is a command that loads a module of ours into the running kernel, or
// says that none was built for it. modprobe knows what was installed; build is
// where make put the modules.
func loadCure(module, release, build string) string {
	for _, tool := range []string{"modprobe", "/sbin/modprobe", "/usr/sbin/modprobe"} {
		if exec.Command(tool, "--dry-run", "--quiet", module).Run() == nil {
			return "modprobe " + module
		}
	}
	files, _ := filepath.Glob(filepath.Join(build, "kmod", "*", module, module+".ko")) // the pattern is well-formed
	for _, file := range files {
		if moduleRelease(file) == release {
			return "insmod " + file + moduleOptions(module, build)
		}
	}
	return "build " + module + ".ko for Linux " + release + ": the package skep-dkms does it, or make kmod for Debian's kernels"
}

// moduleOptions are those without which a module is of no use.
func moduleOptions(module, build string) string {
	if module == "shimos" {
		return " image=" + filepath.Join(build, "bin", "sms.image")
	}
	return ""
}

// moduleRelease is the kernel for which a module was built, or empty.
func moduleRelease(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return ""
	}
	info, err := section.Data()
	if err != nil {
		return ""
	}
	for _, entry := range bytes.Split(info, []byte{0}) {
		if magic, ok := strings.CutPrefix(string(entry), "vermagic="); ok {
			release, _, _ := strings.Cut(magic, " ")
			return release
		}
	}
	return ""
}

// cureHere is loadCure for the running kernel and the tree of this program.
func cureHere(module string) string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty: nothing was built for that
	self, err := os.Executable()
	if err != nil {
		return "modprobe " + module
	}
	return loadCure(module, strings.TrimSpace(string(release)), filepath.Dir(filepath.Dir(self)))
}
