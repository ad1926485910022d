// SPDX-License-Identifier: MIT

package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCray: its launcher is refused by name, and its programs run with any MPICH.
func TestCray(t *testing.T) {
	top := t.TempDir()
	bin := filepath.Join(top, "pals", "1.2", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	writeScript(t, filepath.Join(bin, "mpiexec"), "echo HYDRA build details:")
	link := filepath.Join(top, "mpiexec")
	if err := os.Symlink(filepath.Join(bin, "mpiexec"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := ProbeLauncher(t.Context(), link); err == nil || !strings.Contains(err.Error(), "PALS") || !strings.Contains(err.Error(), "--mpi PREFIX") {
		t.Errorf("the launcher of PALS: %v", err)
	}
	for soname, want := range map[string]Kind{
		"libmpi_cray.so.12": MPICH, "libmpi_gnu_123.so.12": MPICH, "libmpi_abi.so.1": MPICH,
		"libmpi_cray.so.40": "", "libmpi_cxx.so.40": "", "libmpifort_cray.so.12": "",
	} {
		if got := (Need{soname}).Kind(); got != want {
			t.Errorf("%s is of %q, want %q", soname, got, want)
		}
	}
	prefix := t.TempDir()
	lib := filepath.Join(prefix, "lib")
	if err := os.Mkdir(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(lib, "libmpi.so.12")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	i := Install{Kind: MPICH, Prefix: prefix}
	folders, err := i.Libraries(Need{"libmpi_gnu_123.so.12"}, t.TempDir())
	if err != nil || len(folders) < 2 {
		t.Fatalf("%v, %v", folders, err)
	}
	if got, err := os.Readlink(filepath.Join(folders[0], "libmpi_gnu_123.so.12")); err != nil || got != own {
		t.Errorf("the library leads to %q, %v; want %s", got, err, own)
	}
}
