// SPDX-License-Identifier: MIT

package ident

import (
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// installID returns the MachineGuid and the serial number of the system's volume.
func installID() (string, error) {
	guid, err := readAtStart(time.Sleep, machineGUID)
	if err != nil {
		return "", err
	}
	serial, err := readAtStart(time.Sleep, systemSerial)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %08x", guid, serial), nil
}

func machineGUID() (string, error) {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`,
		registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return "", fmt.Errorf("the registry key of MachineGuid cannot be opened: %w", err)
	}
	defer k.Close()
	guid, _, err := k.GetStringValue("MachineGuid")
	if err != nil {
		return "", fmt.Errorf("MachineGuid cannot be read: %w", err)
	}
	return guid, nil
}

func systemSerial() (serial uint32, err error) {
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return 0, err
	}
	root, err := windows.UTF16PtrFromString(dir[:2] + `\`)
	if err != nil {
		return 0, err
	}
	if err := windows.GetVolumeInformation(root, nil, 0, &serial, nil, nil, nil, 0); err != nil {
		return 0, fmt.Errorf("the system volume's serial number cannot be read: %w", err)
	}
	return serial, nil
}

func physicalCard(string) bool { return true }
