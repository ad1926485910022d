// SPDX-License-Identifier: MIT

package ident

import (
	"errors"
	"net"
	"os"
	"strings"
)

// installID returns the machine id, or nothing if the system has none (containers);
// then the network cards alone decide.
func installID() (string, error) {
	return readInstallID("/etc/machine-id", "/var/lib/dbus/machine-id")
}

// readInstallID reads the first of these files that exists.
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

func listCards() ([]net.Interface, error) { return net.Interfaces() }

// physicalCard reports false for bridges and tunnels, whose addresses are random, or
// equal on all machines.
func physicalCard(name string) bool {
	_, err := os.Stat("/sys/class/net/" + name + "/device")
	return err == nil
}
