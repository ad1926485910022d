// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// FetchModule returns the file of a module of k, whose package has the given version. If
// FetchKernel has left the module out, FetchModule fetches the package once more and adds
// all modules that were left out to the folder of k. Concurrent calls, also in several
// processes, do the work once.
func FetchModule(ctx context.Context, k *Kernel, version, name string, progress io.Writer) (string, error) {
	file, err := FindModule(k.ModuleDir(), name)
	if !errors.Is(err, errNoModule) || !k.leavesOut(name) {
		return file, err
	}
	home := filepath.Dir(k.Dir)
	unlock, err := lockFile(ctx, filepath.Join(home, "lock"), func() {
		fmt.Fprintf(progress, "kernel %s: waiting for another make that fetches kernels\n", k.Series)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if file, err = FindModule(k.ModuleDir(), name); !errors.Is(err, errNoModule) {
		return file, err
	}
	part := filepath.Join(home, "."+k.Series+".modules.part")
	defer os.RemoveAll(part)
	if err := os.RemoveAll(part); err != nil { // left by a fetch that was killed
		return "", err
	}
	if err := k.addLeftOut(ctx, part, version, progress); err != nil {
		return "", fmt.Errorf("kernel %s: the module %s: %w", k.Series, name, err)
	}
	return FindModule(k.ModuleDir(), name)
}

// leavesOut reports whether the kernel's package has a module: modules.order lists all
// that were built, also those that are not unpacked.
func (k *Kernel) leavesOut(name string) bool {
	text, err := os.ReadFile(filepath.Join(k.ModuleDir(), "modules.order"))
	if err != nil || strings.HasSuffix(k.Series, debugSuffix) {
		return false
	}
	for _, file := range strings.Fields(string(text)) {
		if moduleName(file) == moduleName(name) {
			return true
		}
	}
	return false
}

// addLeftOut unpacks the image's package in part, and moves the folders that the kernel
// lacks to their places. depmod, which lists them, comes last: until then nobody finds
// them, and a fetch that was killed is repeated.
func (k *Kernel) addLeftOut(ctx context.Context, part, version string, progress io.Writer) error {
	if !exactVersion(version) {
		return fmt.Errorf("%.80q is not a version of Debian's kernel packages, such as 6.1.176-1", version)
	}
	fmt.Fprintf(progress, "kernel %s: fetching the modules that were left out\n", k.Series)
	a, err := openArchive(ctx, filepath.Join(part, "apt"), version)
	if err != nil {
		return err
	}
	image, err := a.imageOf(ctx, version)
	if err != nil {
		return err
	}
	if image != "linux-image-"+k.Release {
		return fmt.Errorf("the package of version %s is %s, and the kernel here is %s", version, image, k.Release)
	}
	debs, err := a.downloadAll(ctx, []string{image}, map[string]string{image: version})
	if err != nil {
		return err
	}
	raw := filepath.Join(part, "raw")
	if err := os.Mkdir(raw, 0o755); err != nil {
		return err
	}
	if err := unpackDeb(ctx, debs[image], raw, []string{"./usr/share", "./boot"}); err != nil {
		return err
	}
	for _, pattern := range leftOut {
		below, ok := strings.CutPrefix(pattern, "./lib/modules/*/")
		from, to := filepath.Join(libOf(raw), "modules", k.Release, below), filepath.Join(k.ModuleDir(), below)
		if !ok || !exists(from) {
			continue
		}
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(from, to)); err != nil {
			return err
		}
	}
	return runDepmod(ctx, k.Dir, k.Release)
}
