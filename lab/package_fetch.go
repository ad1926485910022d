// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FetchPackage fetches one package of Debian at the version of a kernel's packages,
// checked by apt and not installed, into dir, and gives its path.
func FetchPackage(ctx context.Context, dir, name, version string, progress io.Writer) (string, error) {
	if !exactVersion(version) {
		return "", fmt.Errorf("%.80q is no version of Debian's kernel packages, such as 6.1.176-1", version)
	}
	fmt.Fprintf(progress, "%s %s: reading Debian's package lists\n", name, version)
	a, err := openArchive(ctx, dir, version)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "%s %s: fetching\n", name, version)
	paths, err := a.downloadAll(ctx, []string{name}, version)
	return paths[name], err
}

// CacheDir is a folder of the user for what takes long to make again.
func CacheDir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no folder to keep things in: set HOME or XDG_CACHE_HOME: %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "skep"), nil
}

// Lock takes an exclusive lock on a file, which ends with this process at the
// latest; waiting is called once if another process holds it.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return lockFile(ctx, path, waiting)
}
