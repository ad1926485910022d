// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Versions of Landlock that brought something that is used here.
const (
	abiRefer    = 2 // Linux 5.19
	abiTruncate = 3 // Linux 6.2
	abiDevices  = 5 // Linux 6.10
	abiScopes   = 6 // Linux 6.12
)

// landlockABI is the kernel's version of Landlock, 0: none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// restrictThread takes rights from the calling thread, for good. The program
// that it starts has what is left, whatever it executes.
func restrictThread(b *bounds) error {
	// The agent's session keyring may hold tickets and pass phrases.
	unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("new privileges cannot be ruled out: %w", err)
	}
	if err := restrictFiles(b); err != nil {
		return err
	}
	if err := dropCapabilities(b); err != nil {
		return err
	}
	return filterCalls(b)
}

// dropCapabilities keeps only the capabilities that a program of another user needs here: two
// to change the user, and one because the kernel sends the death signal with this thread's
// rights. The change of the user drops them for the program.
func dropCapabilities(b *bounds) error {
	for c := range uintptr(64) {
		unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // if it may not, no_new_privs has the same effect
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities cannot be dropped: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if b.RunAs != 0 {
		data[0].Permitted = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
		data[0].Effective = data[0].Permitted
	}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("capabilities cannot be dropped: %w", err)
	}
	return nil
}

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockAll1 = 1<<13 - 1 // version 1
	landlockFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// restrictFiles denies all files except those that b allows, unless namespaces do that. In
// both cases it denies signals to other programs and their abstract sockets, if the kernel can
// (abiScopes).
func restrictFiles(b *bounds) error {
	abi := landlockABI()
	if abi == 0 && b.Kind != ConfinedLandlock || b.Kind == ConfinedNot {
		return nil
	}
	if abi == 0 {
		return fmt.Errorf("this kernel has no Landlock")
	}
	attr := unix.LandlockRulesetAttr{}
	if abi >= abiScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	} else if b.Kind != ConfinedLandlock {
		return nil
	}
	if b.Kind == ConfinedLandlock {
		attr.Handled_access_fs = handledAccess(abi)
	}
	// Older kernels do not know the fields after these three.
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if abi < abiScopes {
		size = unsafe.Offsetof(attr.Handled_access_net)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("Landlock rejects the rules: %w", errno)
	}
	defer unix.Close(int(fd))
	if b.Kind == ConfinedLandlock {
		if err := landlockFiles(int(fd), b, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("Landlock cannot be used: %w", errno)
	}
	return nil
}

func handledAccess(abi int) uint64 {
	all := uint64(landlockAll1)
	if abi >= abiRefer {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiDevices {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// procFiles describe the machine, not a process.
var procFiles = []string{"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/version", "/proc/uptime", "/proc/loadavg"}

func landlockFiles(ruleset int, b *bounds, all uint64) error {
	for _, path := range slices.Concat(systemDirs, procFiles, b.Read) {
		if err := allowTree(ruleset, path, landlockRead, b.Hide); err != nil {
			return err
		}
	}
	for _, path := range b.Write {
		if err := allowTree(ruleset, path, all, b.Hide); err != nil {
			return err
		}
	}
	for _, name := range systemDevices {
		if err := allowTree(ruleset, "/dev/"+name, all&^unix.LANDLOCK_ACCESS_FS_EXECUTE, nil); err != nil {
			return err
		}
	}
	return nil
}

// allowTree allows a path without the directories in hide. Landlock cannot exclude a subtree,
// so their neighbours are allowed one by one.
func allowTree(ruleset int, path string, access uint64, hide []string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // this system does not have it
	}
	if slices.ContainsFunc(hide, func(dir string) bool { return isWithin(dir, real) }) {
		list, _ := os.ReadDir(real)
		for _, e := range list {
			below := filepath.Join(real, e.Name())
			if e.Type()&os.ModeSymlink != 0 || slices.Contains(hide, below) {
				continue
			}
			if err := allowTree(ruleset, below, access, hide); err != nil {
				return err
			}
		}
		return nil
	}
	fd, err := unix.Open(real, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	// The structure is packed: 8 bytes and 4.
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("Landlock cannot allow %s: %w", real, errno)
	}
	return nil
}
