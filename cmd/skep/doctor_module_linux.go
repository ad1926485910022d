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

// loadCure returns a command that loads one of our modules into the running kernel, or a
// sentence that none was built for this kernel. modprobe loads an installed module; build
// is the folder of modules that make built.
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

// moduleOptions returns the options that a module cannot do without.
func moduleOptions(module, build string) string {
	if module == "shimos" {
		return " image=" + filepath.Join(build, "bin", "sms.image")
	}
	return ""
}

// moduleRelease returns the release of the kernel for which a module was built, or an
// empty string.
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

// cureHere is loadCure for the running kernel and this program's build folder.
func cureHere(module string) string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // if empty, no module matches
	self, err := os.Executable()
	if err != nil {
		return "modprobe " + module
	}
	return loadCure(module, strings.TrimSpace(string(release)), filepath.Dir(filepath.Dir(self)))
}
