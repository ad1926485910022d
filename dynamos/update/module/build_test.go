// SPDX-License-Identifier: MIT

package module

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A build system that makes no module, whether it says so or not, gives none.
func TestBuildThatMakesNoModuleIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		makefile  string
		isRefusal func(error) bool
	}{
		"make fails with a message":               {"modules:\n\t@echo no rule for it >&2; false\n", func(err error) bool { return strings.Contains(err.Error(), "no rule for it") }},
		"make succeeds without making the module": {"modules:\n", func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"make writes a file that is no module":    {"modules:\n\t@echo text >$(M)/fix.ko\n", func(err error) bool { return strings.Contains(err.Error(), "no module") }},
	} {
		p := examplePlan()
		p.Tree, p.Compiler = t.TempDir(), "gcc"
		for file, text := range map[string]string{"Makefile": c.makefile, "Module.symvers": "0x00000000\tvfs_read\tvmlinux\tEXPORT_SYMBOL\t\n"} {
			if err := os.WriteFile(filepath.Join(p.Tree, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := BuildModule(t.Context(), p); r != nil || err == nil || !c.isRefusal(err) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
