// SPDX-License-Identifier: MIT

package ident

import (
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

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

// listCards returns the network cards. net.Interfaces asks for their name servers too,
// which a fingerprint does not need, and fails if they cannot be read: Wine 10 fails with
// "Invalid data".
func listCards() ([]net.Interface, error) { return readCards(windows.GetAdaptersAddresses) }

// readCards lists the cards with GetAdaptersAddresses. More cards may appear between
// two calls, so every answer that the buffer is too small is believed.
func readCards(get func(family, flags uint32, reserved uintptr, first *windows.IpAdapterAddresses, size *uint32) error) ([]net.Interface, error) {
	const hardwareOnly = windows.GAA_FLAG_SKIP_UNICAST | windows.GAA_FLAG_SKIP_ANYCAST |
		windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER
	for size := uint32(15000); ; { // as Microsoft recommends
		buffer := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&buffer[0]))
		err := get(windows.AF_UNSPEC, hardwareOnly, 0, first, &size)
		switch {
		case err == nil && size == 0, errors.Is(err, windows.ERROR_NO_DATA):
			return nil, nil
		case err == nil:
			return cardsFrom(first), nil
		case !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) || size <= uint32(len(buffer)):
			return nil, fmt.Errorf("the network cards cannot be listed: %w", err)
		}
	}
}

func cardsFrom(a *windows.IpAdapterAddresses) (cards []net.Interface) {
	for ; a != nil; a = a.Next {
		c := net.Interface{Name: windows.UTF16PtrToString(a.FriendlyName)}
		if n := a.PhysicalAddressLength; n > 0 && n <= uint32(len(a.PhysicalAddress)) {
			c.HardwareAddr = net.HardwareAddr(a.PhysicalAddress[:n]) // the list is in its buffer
		}
		if a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK {
			c.Flags = net.FlagLoopback
		}
		cards = append(cards, c)
	}
	return cards
}

func physicalCard(string) bool { return true }
