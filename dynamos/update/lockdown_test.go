// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update/pack"
)

// A kernel that is locked down, or enforces signatures, is named before anything is loaded.
func TestLockdown(t *testing.T) {
	signed := []byte("\x7fELF" + pack.ModuleMagic)
	for _, c := range []struct{ lockdown, enforce, want string }{
		{"", "", ""},
		{"[none] integrity confidentiality\n", "N\n", ""},
		{"none [integrity] confidentiality\n", "N\n", "this kernel is locked down (integrity)"},
		{"none integrity [confidentiality]\n", "Y\n", "this kernel is locked down (confidentiality)"},
		{"[none] integrity confidentiality\n", "Y\n", "this kernel enforces signatures of modules (sig_enforce)"},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{"sys/kernel/security/lockdown": c.lockdown, "sys/module/module/parameters/sig_enforce": c.enforce} {
			if text == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		l := ReadLockdown(root)
		err := l.Check("fix", []byte("\x7fELF"))
		if c.want == "" && (err != nil || l.Signed()) || c.want != "" && (err == nil || !l.Signed() || !strings.HasPrefix(err.Error(), c.want+", so it loads signed modules only")) {
			t.Errorf("%q, %q: %v", c.lockdown, c.enforce, err)
		}
		if err := l.Check("fix", append(signed[:len(signed):len(signed)], 0)); (err == nil) != (c.want == "") {
			t.Errorf("%q, %q: a signature that is not at the end: %v", c.lockdown, c.enforce, err)
		}
		if err := l.Check("fix", signed); err != nil {
			t.Errorf("%q, %q: a signed module: %v", c.lockdown, c.enforce, err)
		}
	}
}
