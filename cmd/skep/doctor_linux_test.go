// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorDistinguishesAbsentFromBrokenModule(t *testing.T) {
	dir := t.TempDir()
	unknown := filepath.Join(dir, "o2g")
	if err := os.WriteFile(unknown, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{
		filepath.Join(dir, "none"): {"no kernel module", ", if MPI programs run here"},
		unknown:                    {"inappropriate ioctl", "reload the module: "},
	} {
		c := checkModule(path)
		if c.State != checkNote || !strings.Contains(c.Found, want[0]) || !strings.Contains(c.Cure, want[1]) {
			t.Errorf("%s: %+v", filepath.Base(path), c)
		}
	}
}
