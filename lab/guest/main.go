// SPDX-License-Identifier: MIT

// Guest is process 1 of a lab's machine. It mounts the host's root file system below an
// overlay, sets the machine up as /machine.json describes it, sends a hello on the
// virtio-serial port and then runs programs on request.
//
// It starts as /init of an initramfs. docs/design/lab.md describes the rest.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"skep/lab/wire"
)

// version is the product's version; cmd/skep/version.go has the same.
const version = "0.1.0"

func main() {
	if os.Getpid() != 1 {
		if len(os.Args) == 2 && os.Args[1] == "--version" {
			fmt.Println("skep-guest " + version)
			return
		}
		fmt.Fprintln(os.Stderr, "skep-guest: process 1 of a lab's machine; use it through `skep lab` or `make vm`")
		os.Exit(2)
	}
	if err := serveLife(); err != nil {
		// The host looks for this line if it received no hello.
		fmt.Fprintf(os.Stderr, "skep-guest: %v\n", err)
		turnOff(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

// A step is one step of setting the machine up. Its error begins with its name.
type step struct {
	name string
	do   func(*wire.Config) error
}

// early are the steps before the port exists. Their errors can only be printed.
var early = []step{
	{"mount /proc, /sys and /dev", mountKernel},
	{"read " + wire.ConfigFile, readConfig},
	{"load the modules of the root", loadRoot},
}

var late = []step{
	{"mount the root", mountRoot},
	{"mount what belongs to a system", mountSystem},
	{"mount /out", mountOut},
	{"set names and the ordinary user", setNames},
	{"set the kernel's limits", setKernel},
	{"load modules", loadModules},
	{"set up swap", setSwap},
	{"set up the wire", setWire},
	{"set up nodes", setNodes},
}

func serveLife() error {
	startReaper()
	var c wire.Config
	if err := runSteps(early, &c); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return fmt.Errorf("open the port: %w", err)
	}
	failed := runSteps(late, &c)
	hello := measureGuest(&c)
	if failed != nil {
		hello.Failure = failed.Error()
	}
	return serve(port, hello)
}

func runSteps(steps []step, c *wire.Config) error {
	for _, s := range steps {
		if err := s.do(c); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func readConfig(c *wire.Config) error {
	data, err := os.ReadFile(wire.ConfigFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, c); err != nil {
		return err
	}
	if running := kernelRelease(); running != c.Release {
		return fmt.Errorf("the kernel calls itself %q, its folder is of %q: run make kernels", running, c.Release)
	}
	return nil
}

// turnOff ends the machine at once. The caller has synced the file systems.
func turnOff(how int) {
	syscall.Sync()
	syscall.Reboot(how)
	for { // the kernel stops us; process 1 must not return
		time.Sleep(time.Hour)
	}
}
