// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// apart is true if this process has the namespaces of enterNamespaces.
var apart bool

// enterNamespaces starts this program again with mounts, a /dev/shm and System V objects of
// its own, so that whatever a suite leaves there is the suite's. It returns only if it fails,
// as it does without root.
func enterNamespaces() error {
	words := []string{"unshare", "--mount", "--ipc", "--propagation", "private"}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return err
	}
	if out, err := exec.Command(path, append(words[1:], "true")...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	words = append(append(words, self, "-apart"), os.Args[1:]...)
	return syscall.Exec(path, words, os.Environ())
}

// useNamespaces is called in those that enterNamespaces made. It mounts an empty /dev/shm.
func useNamespaces() error {
	apart = true
	if err := syscall.Mount("none", sharedMemory, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount %s: %w", sharedMemory, err)
	}
	return nil
}
