// SPDX-License-Identifier: MIT

package ident

import (
	"errors"
	"os"
	"strings"
)

// installID is empty where the system has none (containers): then the network
// cards alone decide.
func installID() (string, error) {
	return readInstallID("/etc/machine-id", "/var/lib/dbus/machine-id")
}

// readInstallID reads the first of these files that is there.
func readInstallID(names ...string) (string, error) {
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			return strings.TrimSpace(string(b)), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// physicalCard leaves out bridges and tunnels, whose addresses are made up at
// each start, or the same everywhere.
func physicalCard(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name + "/device")
	return err == nil
}
