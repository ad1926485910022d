// SPDX-License-Identifier: MIT

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

// SystemState is where the services of the system keep their state.
func SystemState() (string, error) {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return "", fmt.Errorf("the folder ProgramData cannot be found: %w", err)
	}
	return filepath.Join(dir, "skep"), nil
}

// ProtectFolder makes a folder with a list of rights of its own. All users may make folders below ProgramData: one that another made is
// refused, for its maker could hold it open or change its rights.
func ProtectFolder(path, sddl string) error {
	descriptor, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	attributes := windows.SecurityAttributes{SecurityDescriptor: descriptor}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	err = windows.CreateDirectory(name, &attributes)
	if err == nil {
		return nil
	}
	if !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return &fs.PathError{Op: "make", Path: path, Err: err}
	}
	if err := checkOwner(path); err != nil {
		return err
	}
	list, _, err := descriptor.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, list, nil)
}

// checkOwner refuses what is no folder of an administrator.
func checkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
		return fmt.Errorf("%s is not a folder: rename or remove it", path)
	}
	descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := descriptor.Owner()
	if err != nil {
		return err
	}
	self, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if owner.Equals(self.User.Sid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) || owner.IsWellKnown(windows.WinLocalSystemSid) {
		return nil
	}
	return fmt.Errorf("%s belongs to %s, who is not an administrator: look at it, then rename or remove it", path, owner)
}

// UnsafeProgram says why a service of the system must not start a program.
func UnsafeProgram(program string) string {
	volume := filepath.VolumeName(program)
	root, err := windows.UTF16PtrFromString(volume + `\`)
	if err != nil || strings.HasPrefix(volume, `\\`) || windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "lies on another computer, where services do not see it"
	}
	if users, err := windows.KnownFolderPath(windows.FOLDERID_UserProfiles, 0); err == nil && isBelow(program, users) {
		return "lies below " + users + ", which services may not read"
	}
	for _, path := range []string{program, filepath.Dir(program)} {
		descriptor, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			return fmt.Sprintf("cannot be checked (%v)", err)
		}
		if who := WritableBy(descriptor.String()); who != "" {
			return fmt.Sprintf("can be replaced by %s, because of the rights of %s", who, path)
		}
	}
	return ""
}

func isBelow(path, folder string) bool {
	return strings.HasPrefix(strings.ToLower(path), strings.ToLower(strings.TrimRight(folder, `\`))+`\`)
}
