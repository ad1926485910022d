// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// leftOut are tar patterns of files that are not unpacked: modules for devices that no
// virtual machine has, which FetchModule can add, and files that Kbuild does not read. They
// are over a third of a package.
var leftOut = []string{
	"./usr/share",
	"./lib/modules/*/kernel/sound",
	"./lib/modules/*/kernel/drivers/media",
	"./lib/modules/*/kernel/drivers/iio",
	"./lib/modules/*/kernel/drivers/net/wireless",
	"./lib/modules/*/kernel/drivers/gpu/drm/amd",
	"./lib/modules/*/kernel/drivers/gpu/drm/i915",
	"./lib/modules/*/kernel/drivers/gpu/drm/xe",
	"./lib/modules/*/kernel/drivers/gpu/drm/nouveau",
	"./lib/modules/*/kernel/drivers/gpu/drm/radeon",
	"./usr/src/*/include/dt-bindings",
}

// FetchKernel returns the kernel of a series or package version. If it is not there,
// FetchKernel downloads Debian's package, which apt checks, and unpacks it without
// installing it. It needs no root. Concurrent calls, also in several processes, do the
// work once.
func FetchKernel(ctx context.Context, build, series string, progress io.Writer) (*Kernel, error) {
	if k, err := FindKernel(build, series); err == nil || strings.HasSuffix(series, debugSuffix) {
		return k, err
	}
	dir, err := kernelDir(build, series)
	if err != nil {
		return nil, err
	}
	build, err = filepath.Abs(build)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lockFile(ctx, filepath.Join(build, "kernel", "lock"), func() {
		fmt.Fprintf(progress, "kernel %s: waiting for another make that fetches kernels\n", series)
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if k, err := FindKernel(build, series); err == nil {
		return k, nil
	}
	part := filepath.Join(build, "kernel", "."+series+".part")
	defer os.RemoveAll(part)
	if err := os.RemoveAll(part); err != nil { // left by a fetch that was killed
		return nil, err
	}
	if err := fetchInto(ctx, part, series, progress); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", series, err)
	}
	if err := os.RemoveAll(dir); err != nil { // damaged, or FindKernel would have returned it
		return nil, err
	}
	if err := os.Rename(filepath.Join(part, "tree"), dir); err != nil {
		return nil, err
	}
	return FindKernel(build, series)
}

// fetchInto fetches a kernel; the finished folder is part/tree.
func fetchInto(ctx context.Context, part, series string, progress io.Writer) error {
	fmt.Fprintf(progress, "kernel %s: reading Debian's package lists\n", series)
	a, err := openArchive(ctx, filepath.Join(part, "apt"), series)
	if err != nil {
		return err
	}
	set, err := a.resolveSet(ctx, series)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "kernel %s: fetching %s and its headers\n", series, set.image)
	debs, err := a.downloadAll(ctx, set.names(), set.versions())
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "kernel %s: unpacking\n", series)
	raw, tree := filepath.Join(part, "raw"), filepath.Join(part, "tree")
	for _, dir := range []string{raw, tree} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range set.names() {
		if err := unpackDeb(ctx, debs[name], raw, leftOut); err != nil {
			return err
		}
	}
	if err := arrangeFiles(raw, tree, set); err != nil {
		return err
	}
	if err := runDepmod(ctx, tree, set.release); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, "release"), []byte(set.release+"\n"), 0o644)
}

// unpackDeb unpacks a package like dpkg-deb -x, without the files of the patterns.
func unpackDeb(ctx context.Context, path, dir string, without []string) error {
	args := []string{"-x", "-C", dir, "--no-same-owner"}
	for _, pattern := range without {
		args = append(args, "--exclude="+pattern)
		if strings.HasPrefix(pattern, "./lib/") {
			args = append(args, "--exclude=./usr"+pattern[1:]) // from Debian 13 on
		}
	}
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", path)
	to := exec.CommandContext(ctx, "tar", args...)
	var fromSays, toSays bytes.Buffer
	from.Stderr, to.Stderr = &fromSays, &toSays
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = pipe
	if err := from.Start(); err != nil {
		return err
	}
	toErr := run(to)
	pipe.Close() // if tar failed, dpkg-deb must not block
	if err := errors.Join(toErr, from.Wait()); err != nil {
		return fmt.Errorf("unpacking %s: %w: %s", filepath.Base(path), err, strings.TrimSpace(fromSays.String()+toSays.String()))
	}
	return nil
}

// arrangeFiles moves the packages' files to the places that Kernel describes. The headers
// are made for /usr/src; arrangeFiles replaces their absolute paths by relative ones.
func arrangeFiles(raw, tree string, set kernelSet) error {
	headers := filepath.Join(tree, "headers")
	src := filepath.Join(raw, "usr", "src")
	lib := libOf(raw)
	if err := os.Mkdir(filepath.Join(tree, "lib"), 0o755); err != nil {
		return err
	}
	for _, move := range [][2]string{
		{filepath.Join(raw, "boot", "vmlinuz-"+set.release), filepath.Join(tree, "vmlinuz")},
		{filepath.Join(raw, "boot", "config-"+set.release), filepath.Join(tree, "config")},
		{filepath.Join(lib, "modules"), filepath.Join(tree, "lib", "modules")},
		{filepath.Join(src, set.headers), headers},
		{filepath.Join(src, set.common), filepath.Join(headers, "common")},
		{filepath.Join(raw, "usr", "lib", set.kbuild), filepath.Join(headers, "kbuild")},
	} {
		if err := os.Rename(move[0], move[1]); err != nil {
			return fmt.Errorf("a package does not hold what it should: %w", err)
		}
	}
	modules := filepath.Join(tree, "lib", "modules", set.release)
	for _, link := range [][2]string{
		{"kbuild/scripts", filepath.Join(headers, "scripts")},
		{"kbuild/tools", filepath.Join(headers, "tools")},
		{"../kbuild/scripts", filepath.Join(headers, "common", "scripts")},
		{"../kbuild/tools", filepath.Join(headers, "common", "tools")},
		{"../../../headers", filepath.Join(modules, "build")},
		{"../../../headers/common", filepath.Join(modules, "source")},
	} {
		if err := os.Remove(link[1]); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(link[0], link[1]); err != nil {
			return err
		}
	}
	if err := keepOnly(filepath.Join(headers, "common", "arch"), "x86"); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(headers, "Makefile"),
		[]byte("include $(dir $(realpath $(lastword $(MAKEFILE_LIST))))common/Makefile\n"), 0o644)
}

// libOf returns the folder /lib of an unpacked package: from Debian 13 on it is in /usr.
func libOf(raw string) string {
	if lib := filepath.Join(raw, "lib"); exists(lib) {
		return lib
	}
	return filepath.Join(raw, "usr", "lib")
}

// keepOnly removes the folders of dir but one.
func keepOnly(dir, name string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() && e.Name() != name {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// runDepmod writes modules.dep, which is otherwise written when a package is installed.
func runDepmod(ctx context.Context, tree, release string) error {
	program := "depmod"
	if _, err := exec.LookPath(program); err != nil {
		program = "/sbin/depmod" // an ordinary user's PATH lacks /sbin
		if !exists(program) {
			return errors.New("depmod is missing: install the package kmod, or run make setup")
		}
	}
	_, err := runOutput(ctx, nil, program, "-b", tree, release)
	return err
}

// lockFile takes an exclusive lock, which ends at the latest with this process.
func lockFile(ctx context.Context, path string, waiting func()) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		err := tryLock(f)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, errLocked) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
