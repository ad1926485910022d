// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"skep/dynamos/update/pack"
)

// A Lockdown says what a kernel requires of modules.
type Lockdown struct {
	Mode     string // "integrity" or "confidentiality"; "": not locked down
	Enforces bool   // module.sig_enforce
}

// ReadLockdown reads the state of the kernel whose /sys is below root.
func ReadLockdown(root string) Lockdown {
	var l Lockdown
	// Neither file exists if the kernel cannot lock down, or securityfs is not mounted.
	text, _ := os.ReadFile(filepath.Join(root, "sys/kernel/security/lockdown"))
	if _, rest, ok := strings.Cut(string(text), "["); ok {
		if mode, _, _ := strings.Cut(rest, "]"); mode != "none" {
			l.Mode = mode
		}
	}
	enforce, _ := os.ReadFile(filepath.Join(root, "sys/module/module/parameters/sig_enforce"))
	l.Enforces = strings.TrimSpace(string(enforce)) == "Y"
	return l
}

// Signed reports whether the kernel loads signed modules only.
func (l Lockdown) Signed() bool { return l.Mode != "" || l.Enforces }

// String names the reason.
func (l Lockdown) String() string {
	if l.Mode != "" {
		return "this kernel is locked down (" + l.Mode + ")"
	}
	return "this kernel enforces signatures of modules (sig_enforce)"
}

// Check refuses an unsigned module if the kernel would not load it.
func (l Lockdown) Check(name string, module []byte) error {
	if l.Signed() && !bytes.HasSuffix(module, []byte(pack.ModuleMagic)) {
		return refusef("%v, so it loads signed modules only, and that of %s is not signed: 'skep update sign FILE --sign-module KEY', with a key that this machine trusts (mokutil --import)", l, name)
	}
	return nil
}
