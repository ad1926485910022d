// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

// What cannot be booted is refused before the module is asked for a partition.
func TestPartLinuxRefusals(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no kernel"), 0o600); err != nil {
		t.Fatal(err)
	}
	kernel := filepath.Join(dir, "kernel")
	file := make([]byte, 1024)
	copy(file[0x202:], "HdrS")
	copy(file[0x20e:], []byte{0, 1})
	copy(file[0x300:], "6.1.0-none (someone)")
	if err := os.WriteFile(kernel, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		code int
		text string
	}{
		{"", cli.Usage, "--root or --initrd is expected"},
		{"--initrd " + text + " --root " + dir, cli.Usage, "either --root or --initrd is expected"},
		{"--initrd " + text + " --modules " + dir, cli.Usage, "--modules is for --root, --net and --disk alone"},
		{"--root " + dir + " --cpus 1 --mem 1G -- " + strings.Repeat("x", 65000), cli.Usage, "words of 64999 bytes together is expected"},
		{"--root " + dir + " --cpus 1 --mem 1G --kernel " + kernel + " -- a", cli.Refused, "the kernel's 9p, from the package linux-image-6.1.0-none or the folder that --modules names: open /lib/modules/6.1.0-none/modules.dep"},
		{"--root " + dir + "/none --cpus 1 --mem 1G --kernel " + kernel, cli.Refused, "the root: stat " + dir + "/none: no such file"},
		{"--root " + text + " --cpus 1 --mem 1G --kernel " + kernel, cli.Refused, "the root: " + text + " is not a folder"},
		{"--initrd " + text + " --cpus 1 --mem 1G --net --kernel " + kernel, cli.Refused, "the kernel's virtio_net, from the package linux-image-6.1.0-none or the folder that --modules names: open /lib/modules/6.1.0-none/modules.dep"},
		{"--initrd " + text + " --cpus 1 --mem 1G --disk " + text + " --kernel " + kernel, cli.Refused, "the kernel's virtio_blk, from the package linux-image-6.1.0-none"},
		{"--root " + dir + " --cpus 1 --mem 1G --net --kernel " + kernel, cli.Refused, "the kernel's 9p and virtio_net, from the package"},
		{"--initrd " + text + " --cpus 1 --mem 1G --address 10.9.8.1/30", cli.Usage, "--address is for --net alone"},
		{"--initrd " + text + " --cpus 1 --mem 1G --net --address 10.9.8.1", cli.Usage, "\"10.9.8.1\" is no address with the length of its network, as 10.9.8.1/30 is"},
		{"--initrd " + text + " --cpus 1 --mem 1G --net --address 10.9.8.3/30", cli.Usage, "10.9.8.3/30 is not one of the two addresses of an IPv4 network of four"},
		{"--initrd " + text + " --cpus 1", cli.Usage, "either --on, or --cpus and --mem are expected"},
		{"--initrd " + text + " --on 1 --cpus 1 --mem 1G", cli.Usage, "either --on, or --cpus and --mem are expected"},
		{"--initrd " + text + " more", cli.Usage, "more"},
		{"--initrd " + text + " --kernel " + dir + "/none", cli.Refused, "the kernel, which --kernel names: stat " + dir + "/none: no such file"},
		{"--initrd " + text + " --kernel /dev/zero", cli.Refused, "/dev/zero is not a regular file"},
		{"--initrd " + text + " --kernel " + text, cli.Refused, text + ": it is not a bzImage"},
	} {
		_, code, text := outputOf(t, append([]string{"part", "linux"}, strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d, %q", c.line, code, text)
		}
	}
}
