// SPDX-License-Identifier: MIT

package hub

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockState does not wait: two hubs on one directory are a mistake.
func lockState(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
