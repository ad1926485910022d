// SPDX-License-Identifier: MIT

package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/lazy"
	"skep/internal/place"
)

// A Kernel is an unpacked kernel package:
//
//	release                 one line, the output of uname -r; written last
//	vmlinuz, config
//	lib/modules/RELEASE/    with modules.dep
//	headers/                the folder for make -C; it may be moved
type Kernel struct {
	Series  string // the series, or the version of the package
	Release string
	Dir     string
}

const debugSuffix = "-debug"

// Image returns the path of the bootable image.
func (k *Kernel) Image() string { return filepath.Join(k.Dir, "vmlinuz") }

// ModuleDir returns the folder that corresponds to /lib/modules/RELEASE.
func (k *Kernel) ModuleDir() string { return filepath.Join(k.Dir, "lib", "modules", k.Release) }

// Headers returns the folder in which Kbuild runs.
func (k *Kernel) Headers() string { return filepath.Join(k.Dir, "headers") }

// Config returns the path of the kernel's configuration.
func (k *Kernel) Config() string { return filepath.Join(k.Dir, "config") }

// BuildDir finds the build folder: SKEP_BUILD, else the one that contains the running
// program, else the user's cache if the program is installed, else build/ of the source
// tree around the working directory.
func BuildDir() (string, error) {
	if dir := os.Getenv("SKEP_BUILD"); dir != "" {
		return filepath.Abs(dir)
	}
	if exe, err := os.Executable(); err == nil {
		if dir, ok := buildOf(exe); ok {
			return dir, nil
		}
		if _, err := place.FindFor(exe, guestName); err == nil {
			return CacheDir()
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if isSourceTree(dir) {
			return filepath.Join(dir, "build"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no build folder: %s is not in a source tree of skep; go there, or set SKEP_BUILD to the folder that make built", wd)
		}
	}
}

// buildOf reports whether a program is in the bin folder of a build.
func buildOf(exe string) (string, bool) {
	bin := filepath.Dir(exe)
	if filepath.Base(bin) != "bin" {
		return "", false
	}
	dir := filepath.Dir(bin)
	return dir, exists(filepath.Join(dir, "kernel")) || exists(filepath.Join(bin, guestName))
}

// guestName is the file name of the program that is process 1 of a guest.
const guestName = "skep-guest"

// GuestProgram finds the program that is process 1 of a guest: in the build folder, else
// where this program is installed.
func GuestProgram(build string) (string, error) {
	path := filepath.Join(build, "bin", guestName)
	if exists(path) {
		return path, nil
	}
	if found, err := place.FindFile(guestName); err == nil {
		return found, nil
	}
	return "", fmt.Errorf("%s, process 1 of machines, is not built: run make (%s is missing)", guestName, path)
}

func isSourceTree(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	return slices.Contains(strings.Split(string(text), "\n"), "module skep")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// packageVersion matches a version of Debian's kernel packages.
var packageVersion = lazy.Regexp(`^([0-9]+\.[0-9]+)\.[0-9]+-[0-9][0-9a-z.+~]{0,31}$`)

// exactVersion reports whether series is a package's version.
func exactVersion(series string) bool { return packageVersion().MatchString(series) }

// seriesOf returns the series that a package's version belongs to.
func seriesOf(series string) string {
	if m := packageVersion().FindStringSubmatch(series); m != nil {
		return m[1]
	}
	return series
}

// CheckKernel returns an error for an invalid name of a kernel. It fetches nothing.
func CheckKernel(series string) error {
	stock, debug := strings.CutSuffix(series, debugSuffix)
	if !slices.Contains(Series(), seriesOf(stock)) || debug && exactVersion(stock) {
		return fmt.Errorf("there is no kernel %q: there are %s, each also with %s, and versions of Debian's packages such as 6.1.176-1", series, strings.Join(Series(), " and "), debugSuffix)
	}
	return nil
}

// kernelDir returns the folder of a series: of a stock kernel in the build folder, of a
// debug kernel, whose build takes long, in the user's cache.
func kernelDir(build, series string) (string, error) {
	if err := CheckKernel(series); err != nil {
		return "", err
	}
	if !strings.HasSuffix(series, debugSuffix) {
		return filepath.Join(build, "kernel", series), nil
	}
	cache, err := CacheDir()
	if err != nil {
		return "", fmt.Errorf("kernel %s lies in a user's cache: %w", series, err)
	}
	return filepath.Join(cache, "kernel", series), nil
}

// FindKernel returns the kernel of a series that was fetched or built before.
func FindKernel(build, series string) (*Kernel, error) {
	dir, err := kernelDir(build, series)
	if err != nil {
		return nil, err
	}
	k, err := openKernel(dir, series)
	switch {
	case err == nil:
		return k, nil
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	case strings.HasSuffix(series, debugSuffix):
		return nil, fmt.Errorf("kernel %s is not built: run make vm-debug", series)
	}
	return nil, fmt.Errorf("kernel %s is not fetched: run make kernels KMOD_SERIES=%s", series, series)
}

// openKernel accepts a folder only if every part is there. Fetch renames a
// finished folder into place, so one that lacks a part was damaged later.
func openKernel(dir, series string) (*Kernel, error) {
	text, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, err
	}
	release := strings.TrimSuffix(string(text), "\n")
	if !validRelease(release) {
		return nil, fmt.Errorf("%s names no kernel release: remove %s and run make kernels", filepath.Join(dir, "release"), dir)
	}
	k := &Kernel{Series: series, Release: release, Dir: dir}
	for _, part := range []string{k.Image(), k.Config(), filepath.Join(k.ModuleDir(), "modules.dep"),
		filepath.Join(k.ModuleDir(), "modules.builtin"), filepath.Join(k.Headers(), "Makefile")} {
		if !exists(part) {
			return nil, fmt.Errorf("%s is incomplete, %s is missing: remove the folder and run make kernels", dir, part)
		}
	}
	return k, nil
}

// validRelease reports whether s can be a kernel release. Releases become part of paths.
func validRelease(s string) bool {
	if s == "" || len(s) > 64 || s[0] < '0' || s[0] > '9' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+~_-") == ""
}
