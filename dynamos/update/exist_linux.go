// SPDX-License-Identifier: MIT

package update

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"skep/dynamos/update/pack"
	"skep/internal/atomicfile"
	"skep/internal/uapi"
)

// CheckObjects refuses an update while there may be objects that lack what its code relies
// on: of a module, those exist while it is loaded; of the kernel's image, always. reason is
// why they do no harm, or "". dynamos.ko holds the same rule, without a race against the
// module's load; this refuses before anything is loaded.
func CheckObjects(hasModule func(string) (bool, error), name string, k *pack.Kernel, reason string) error {
	switch {
	case len(k.Relies) == 0 && reason != "":
		return refusef("%s relies on nothing that existing objects lack: leave --objects-exist out", name)
	case len(k.Relies) == 0 || reason != "":
		return nil
	case k.Module == "":
		return refusef("%s relies on what objects lack that older code set up, and the kernel may have such objects (%s): 'skep update inspect' lists all; say why they do no harm (--objects-exist)",
			name, k.Relies[0])
	}
	loaded, err := hasModule(k.Module)
	if err != nil || !loaded {
		return err
	}
	return refusef("%s relies on what objects lack that older code of the module %s set up (%s): unload that module first, or say why they do no harm (--objects-exist)",
		name, k.Module, k.Relies[0])
}

// HasModule reports whether a module is loaded. What is built into the kernel is none.
func (ThisKernel) HasModule(name string) (bool, error) { return hasModule("/sys", name) }

func hasModule(sys, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(sys, "module", name, "initstate"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// existFlag is the flag of APPLY that belongs to a reason.
func existFlag(reason string) uint32 {
	if reason == "" {
		return 0
	}
	return uapi.DynamosObjectsExist
}

func (k *Keep) existPath(name string) string { return filepath.Join(k.Run, name+".objects-exist") }

// RememberExist stores why an applied update was applied although objects exist, for a later
// Save; "": it was not.
func (k *Keep) RememberExist(name, reason string) error {
	if reason == "" {
		if err := os.Remove(k.existPath(name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(k.Run, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(k.existPath(name), []byte(reason), 0o600)
}

// exist returns what RememberExist stored.
func (k *Keep) exist(name string) (string, error) {
	text, err := os.ReadFile(k.existPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}
