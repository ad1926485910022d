// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FetchPackage downloads one Debian package, in the version of a kernel's packages, into
// dir and returns its path. apt checks it; it is not installed.
func FetchPackage(ctx context.Context, dir, name, version string, progress io.Writer) (string, error) {
	if !exactVersion(version) {
		return "", fmt.Errorf("%.80q is not a version of Debian's kernel packages, such as 6.1.176-1", version)
	}
	fmt.Fprintf(progress, "%s %s: reading Debian's package lists\n", name, version)
	a, err := openArchive(ctx, dir, version)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(progress, "%s %s: fetching\n", name, version)
	paths, err := a.downloadAll(ctx, []string{name}, map[string]string{name: version})
	return paths[name], err
}

// CacheDir returns the user's folder for files that take long to create again.
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

// Lock takes an exclusive lock on a file, which ends at the latest with this process. It
// calls waiting once if another process holds the lock.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return lockFile(ctx, path, waiting)
}
