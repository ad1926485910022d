// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// debugSpace is the disk space that building a debug kernel needs: 1.5 GB of source and
// the objects.
const debugSpace = 5 << 30

// A debugKernel is a debug kernel that is to be built.
type debugKernel struct {
	series string // with the suffix -debug
	dir    string // folder of the finished kernel
	work   string // folder of the unfinished build
	recipe string // folder of build.sh and debug.config
	says   io.Writer
}

// BuildDebug builds the debug kernel of a series, unless it exists and was built from
// Debian's current source and this recipe, the folder with build.sh and debug.config. The
// build takes long. If it is stopped, the next call continues it.
func BuildDebug(ctx context.Context, build, series, recipe string, progress io.Writer) (*Kernel, error) {
	if !strings.HasSuffix(series, debugSuffix) {
		return nil, fmt.Errorf("kernel %s is fetched, not built: want a series with %s, such as 6.1%s or 6.12%s", series, debugSuffix, debugSuffix, debugSuffix)
	}
	dir, err := kernelDir(build, series)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	k := debugKernel{series: series, dir: dir, work: dir + ".build", recipe: recipe, says: progress}
	unlock, err := lockFile(ctx, dir+".lock", func() {
		k.printf("waiting for another make that builds it")
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := k.build(ctx, build); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", series, err)
	}
	return FindKernel(build, series)
}

func (k *debugKernel) printf(format string, args ...any) {
	fmt.Fprintf(k.says, "kernel %s: %s\n", k.series, fmt.Sprintf(format, args...))
}

func (k *debugKernel) build(ctx context.Context, build string) error {
	apt := k.dir + ".apt"
	defer os.RemoveAll(apt)
	k.printf("reading Debian's package lists")
	stock := strings.TrimSuffix(k.series, debugSuffix)
	a, err := openArchive(ctx, apt, stock)
	if err != nil {
		return err
	}
	source, err := a.showPackage(ctx, "linux-source-"+stock)
	if err != nil {
		return err
	}
	digest, err := k.digestInputs(source.version)
	if err != nil {
		return err
	}
	if _, err := FindKernel(build, k.series); err == nil && contains(filepath.Join(k.dir, "digest"), digest) {
		k.printf("there, from source %s", source.version)
		return nil
	}
	if err := k.prepareDir(digest); err != nil {
		return err
	}
	deb := "none"
	if !exists(filepath.Join(k.work, "unpacked")) {
		k.printf("fetching %s %s", source.name, source.version)
		paths, err := a.downloadAll(ctx, []string{source.name}, nil)
		if err != nil {
			return err
		}
		deb = paths[source.name]
	}
	if err := k.run(ctx, deb); err != nil {
		return err
	}
	return k.install(digest)
}

// digestInputs returns the digest of all inputs of the build.
func (k *debugKernel) digestInputs(version string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", version)
	for _, name := range []string{"build.sh", "debug.config"} {
		text, err := os.ReadFile(filepath.Join(k.recipe, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n", nil
}

func contains(path, want string) bool {
	text, err := os.ReadFile(path)
	return err == nil && string(text) == want
}

// prepareDir keeps an unfinished build with the same digest. Otherwise it removes it and
// checks that there is enough disk space.
func (k *debugKernel) prepareDir(digest string) error {
	stamp := filepath.Join(k.work, "digest")
	if contains(stamp, digest) {
		k.printf("going on where it was stopped")
		return nil
	}
	if err := os.RemoveAll(k.work); err != nil {
		return err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(k.work), &fs); err != nil {
		return err
	}
	if err := k.checkSpace(fs.Bavail * uint64(fs.Bsize)); err != nil {
		return err
	}
	if err := os.MkdirAll(k.work, 0o755); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(digest), 0o644)
}

func (k *debugKernel) checkSpace(free uint64) error {
	if free < debugSpace {
		return fmt.Errorf("%s has %d MB free and the build takes %d MB: make room, or set XDG_CACHE_HOME to a folder elsewhere",
			filepath.Dir(k.work), free>>20, debugSpace>>20)
	}
	return nil
}

// run runs build.sh, in an environment without the variables of an outer make.
func (k *debugKernel) run(ctx context.Context, deb string) error {
	log, err := os.Create(filepath.Join(k.work, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	k.printf("building at low priority, 20 minutes on two idle cores; log: %s", log.Name())
	meter := &buildMeter{say: k.printf, next: time.Now().Add(time.Minute)}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", "sh", filepath.Join(k.recipe, "build.sh"),
		deb, filepath.Join(k.recipe, "debug.config"), k.work)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(),
		"KBUILD_BUILD_USER=skep", "KBUILD_BUILD_HOST=lab"}
	cmd.Stdout = io.MultiWriter(log, meter)
	cmd.Stderr = cmd.Stdout
	// A process group of its own: a kill reaches all of make's children, and a
	// terminal's ^C none.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped; make vm-debug continues from here: %w", ctx.Err())
		}
		return fmt.Errorf("the build failed (%w), the end of %s:\n%s", err, log.Name(), meter.tail)
	}
	return nil
}

// install puts the result in place and removes the source.
func (k *debugKernel) install(digest string) error {
	tree := filepath.Join(k.work, "tree")
	if _, err := openKernel(tree, k.series); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "digest"), []byte(digest), 0o644); err != nil {
		return err
	}
	if err := os.RemoveAll(k.dir); err != nil {
		return err
	}
	if err := os.Rename(tree, k.dir); err != nil {
		return err
	}
	k.printf("built")
	return os.RemoveAll(k.work)
}

// A buildMeter reads the output of a build. It reports the progress once a minute and
// keeps the last part for an error.
type buildMeter struct {
	say   func(format string, args ...any)
	next  time.Time
	files int
	tail  []byte
}

func (m *buildMeter) Write(p []byte) (int, error) {
	m.files += bytes.Count(p, []byte(" CC ")) + bytes.Count(p, []byte(" AS "))
	m.tail = append(m.tail, p...)
	m.tail = m.tail[max(0, len(m.tail)-2000):]
	if now := time.Now(); now.After(m.next) {
		m.next = now.Add(time.Minute)
		m.say("%d files compiled", m.files)
	}
	return len(p), nil
}
