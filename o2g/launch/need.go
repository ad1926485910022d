// SPDX-License-Identifier: MIT

package launch

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// A Need is the MPI library that a program was linked with.
type Need struct {
	Soname string // empty: none, or unknown (a script, an interpreter)
}

// mpiSonames maps a soname to the family of MPI libraries that provides it.
var mpiSonames = map[string]Kind{
	"libmpich.so.12":     MPICH, // Debian's soname
	"libmpichfort.so.12": MPICH,
	"libmpi.so.12":       MPICH, // the MPICH ABI initiative
	"libmpi_abi.so.1":    MPICH, // the standard ABI of MPI 5
	"libmpi.so.40":       OpenMPI,
}

// craySoname matches the sonames of HPE Cray's MPICH, one for each compiler, such
// as libmpi_cray.so.12 and libmpi_gnu_123.so.12. It has MPICH's ABI.
var craySoname = lazy.Regexp(`^libmpi_[a-z]+(_[0-9]+)?\.so\.12$`)

// familyOf returns the family of the MPI library with that soname, empty for
// another library.
func familyOf(soname string) Kind {
	if craySoname().MatchString(soname) {
		return MPICH
	}
	return mpiSonames[soname]
}

// NeedOf finds the MPI library that the program's file needs, directly or through
// libraries in the usual folders. It reads ELF headers only and runs nothing.
func NeedOf(program string) Need {
	seen := map[string]bool{}
	queue := []string{program}
	for len(queue) > 0 && len(seen) < 200 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		names, folders := readImports(path)
		for _, n := range names {
			if familyOf(n) != "" && n != "libmpichfort.so.12" {
				return Need{n}
			}
		}
		for _, n := range names {
			if next := locateLibrary(n, folders); next != "" {
				queue = append(queue, next)
			}
		}
	}
	return Need{}
}

// Kind returns the family that the program needs, empty if unknown.
func (n Need) Kind() Kind { return familyOf(n.Soname) }

// readImports returns the libraries that an ELF file needs (DT_NEEDED) and the
// folders of its DT_RUNPATH and DT_RPATH.
func readImports(path string) (names, folders []string) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	names, err = file.ImportedLibraries()
	if err != nil {
		return nil, nil
	}
	origin := filepath.Dir(path)
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		list, _ := file.DynString(tag) // empty if the file has no such tag
		for _, l := range list {
			l = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(l)
			folders = append(folders, strings.Split(l, ":")...)
		}
	}
	return names, folders
}

// systemFolders are the folders that the dynamic linker searches last.
var systemFolders = []string{"/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"}

// locateLibrary finds a library. It skips system libraries, which never need MPI.
func locateLibrary(name string, folders []string) string {
	if strings.HasPrefix(name, "libc.so") || strings.HasPrefix(name, "ld-linux") {
		return ""
	}
	places := slices.Concat(folders, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), systemFolders)
	for _, dir := range places {
		path := filepath.Join(dir, name) // as for the linker, an empty name is the working folder
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
