// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func plantFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func plantKernel(t *testing.T, build, series string) *Kernel {
	t.Helper()
	dir, err := kernelDir(build, series)
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "lib/modules/6.1.0-9-amd64")
	plantFile(t, filepath.Join(dir, "release"), "6.1.0-9-amd64\n")
	plantFile(t, filepath.Join(dir, "vmlinuz"), "")
	plantFile(t, filepath.Join(dir, "config"), "")
	plantFile(t, filepath.Join(dir, "headers/Makefile"), "")
	plantFile(t, filepath.Join(modules, "modules.dep"), depText)
	plantFile(t, filepath.Join(modules, "modules.builtin"), builtinText)
	k, err := FindKernel(build, series)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

func TestFindGivesPaths(t *testing.T) {
	build := t.TempDir()
	k := plantKernel(t, build, "6.1")
	dir := filepath.Join(build, "kernel", "6.1")
	for got, want := range map[string]string{
		k.Release:     "6.1.0-9-amd64",
		k.Image():     dir + "/vmlinuz",
		k.Config():    dir + "/config",
		k.Headers():   dir + "/headers",
		k.ModuleDir(): dir + "/lib/modules/6.1.0-9-amd64",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestFindLooksForDebugKernelsInTheCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	_, err := FindKernel(t.TempDir(), "6.12-debug")
	wantError(t, err, "run make vm-debug")
	_, err = FetchKernel(context.Background(), t.TempDir(), "6.12-debug", &bytes.Buffer{})
	wantError(t, err, "run make vm-debug")
	k := plantKernel(t, t.TempDir(), "6.12-debug")
	if want := filepath.Join(cache, "skep/kernel/6.12-debug"); k.Dir != want {
		t.Errorf("found in %s, want %s", k.Dir, want)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", cache)
	dir, err := kernelDir("", "6.1-debug")
	if want := filepath.Join(cache, ".cache/skep/kernel/6.1-debug"); err != nil || dir != want {
		t.Errorf("looked in %s, %v; want %s", dir, err, want)
	}
}

func TestFindRefuses(t *testing.T) {
	build := t.TempDir()
	_, err := FindKernel(build, "6.1")
	wantError(t, err, "kernel 6.1 is not fetched: run make kernels")
	for _, series := range []string{"5.10", "", "../6.1", "6.1-debug-debug", "debug"} {
		_, err := FindKernel(build, series)
		wantError(t, err, "6.1 and 6.12")
	}
	k := plantKernel(t, build, "6.1")
	for _, text := range []string{"", "\n", "../../x\n", "6.1/../..\n", "6.1 x\n", strings.Repeat("6", 100)} {
		plantFile(t, filepath.Join(k.Dir, "release"), text)
		_, err := FindKernel(build, "6.1")
		wantError(t, err, "no kernel release")
	}
	plantFile(t, filepath.Join(k.Dir, "release"), k.Release)
	if err := os.Remove(k.Image()); err != nil {
		t.Fatal(err)
	}
	_, err = FindKernel(build, "6.1")
	wantError(t, err, "vmlinuz is missing")
}

func TestBuildDir(t *testing.T) {
	tree := t.TempDir()
	plantFile(t, filepath.Join(tree, "go.mod"), "// x\n\nmodule skep\n")
	plantFile(t, filepath.Join(tree, "a/b/go.mod"), "module skeptical\n")
	t.Setenv("SKEP_BUILD", "")
	t.Chdir(filepath.Join(tree, "a/b"))
	want, err := filepath.EvalSymlinks(tree)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := BuildDir(); err != nil || got != filepath.Join(want, "build") {
		t.Errorf("from below a tree: %s, %v", got, err)
	}
	t.Setenv("SKEP_BUILD", "/x/y")
	if got, err := BuildDir(); err != nil || got != "/x/y" {
		t.Errorf("with SKEP_BUILD: %s, %v", got, err)
	}
	t.Setenv("SKEP_BUILD", "")
	t.Chdir(t.TempDir())
	_, err = BuildDir()
	wantError(t, err, "set SKEP_BUILD")
}

func TestBuildOfAProgram(t *testing.T) {
	dir := t.TempDir()
	if _, ok := buildOf(filepath.Join(dir, "bin/skep")); ok {
		t.Error("a bin folder alone is taken for a build")
	}
	plantFile(t, filepath.Join(dir, "kernel/lock"), "")
	if got, ok := buildOf(filepath.Join(dir, "bin/skep")); !ok || got != dir {
		t.Errorf("beside kernel/: %s, %v", got, ok)
	}
	if _, ok := buildOf(filepath.Join(dir, "tool/fetch")); ok {
		t.Error("a program that is not in bin is taken for one")
	}
	other := t.TempDir()
	plantFile(t, filepath.Join(other, "bin/skep-guest"), "")
	if got, ok := buildOf(filepath.Join(other, "bin/skep")); !ok || got != other {
		t.Errorf("beside skep-guest: %s, %v", got, ok)
	}
}

// With an empty PATH FetchKernel cannot run any program.
func TestFetchOfAKernelThatIsThereRunsNothing(t *testing.T) {
	build := t.TempDir()
	want := plantKernel(t, build, "6.1")
	t.Setenv("PATH", t.TempDir())
	var progress bytes.Buffer
	k, err := FetchKernel(context.Background(), build, "6.1", &progress)
	if err != nil || *k != *want || progress.Len() > 0 {
		t.Errorf("got %v, %v, and was told %q", k, err, &progress)
	}
}

func TestFetchWithoutAptSaysSoAndLeavesNothing(t *testing.T) {
	build := t.TempDir()
	plantFile(t, filepath.Join(build, "kernel/.6.1.part/tree/release"), "of a fetch that was killed\n")
	plantFile(t, filepath.Join(build, "kernel/6.1/vmlinuz"), "of a damaged kernel")
	t.Setenv("PATH", t.TempDir())
	_, err := FetchKernel(context.Background(), build, "6.1", &bytes.Buffer{})
	wantError(t, err, "there is no apt-get here")
	if exists(filepath.Join(build, "kernel/.6.1.part")) {
		t.Error("the partial folder is still there")
	}
	_, err = FindKernel(build, "6.1")
	wantError(t, err, "run make kernels")
}

// Every package of this archive holds all files of a kernel.
const fetchScript = `case $1 in
indextargets) printf 'Debian\tDebian\tmain\tfile:/nowhere\n' ;;
download) shift; for p; do : >"${p%=*}_1_amd64.deb"; done ;;
esac
`

func TestFetchReplacesADamagedKernel(t *testing.T) {
	if !exists(debianKeys) {
		t.Skip("no keys of Debian here: install debian-archive-keyring")
	}
	const release = "6.1.0-9-amd64"
	build, files := t.TempDir(), t.TempDir()
	for _, name := range []string{"boot/vmlinuz-" + release, "boot/config-" + release, "lib/modules/" + release + "/modules.builtin",
		"usr/src/linux-headers-" + release + "/Makefile", "usr/src/linux-headers-6.1.0-9-common/arch/x86/a.h",
		"usr/lib/linux-kbuild-6.1/scripts/b"} {
		plantFile(t, filepath.Join(files, name), "new")
	}
	plantFile(t, filepath.Join(build, "kernel/6.1/vmlinuz"), "of a damaged kernel")
	path := os.Getenv("PATH")
	fakeApt(t, map[string]string{
		"apt-get": fetchScript, "apt-cache": showScript, "apt-config": "",
		"dpkg-deb": "exec tar -c -C '" + files + "' .\n",
		"depmod":   `echo >"$2/lib/modules/$3/modules.dep"` + "\n",
	})
	t.Setenv("PATH", os.Getenv("PATH")+":"+path)
	k, err := FetchKernel(t.Context(), build, "6.1", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(k.Image()); k.Release != release || string(text) != "new" {
		t.Errorf("kernel %s with the image %q, %v", k.Release, text, err)
	}
	if exists(filepath.Join(build, "kernel/.6.1.part")) {
		t.Error("the partial folder is still there")
	}
}

func TestFetchWaitsForAnother(t *testing.T) {
	build := t.TempDir()
	plantFile(t, filepath.Join(build, "kernel/lock"), "")
	unlock, err := lockFile(context.Background(), filepath.Join(build, "kernel/lock"), func() { t.Error("waited for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var progress bytes.Buffer
	if _, err := FetchKernel(ctx, build, "6.1", &progress); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v while another fetches", err)
	}
	wantError(t, errors.New(progress.String()), "waiting for another")
	want := plantKernel(t, build, "6.1")
	unlock()
	if k, err := FetchKernel(context.Background(), build, "6.1", &progress); err != nil || *k != *want {
		t.Errorf("after the other: %v, %v", k, err)
	}
}

// If tar fails without reading, dpkg-deb ends although it writes more than a pipe holds.
func TestUnpackEndsWhenTarFails(t *testing.T) {
	fakeApt(t, map[string]string{
		"dpkg-deb": "while :; do echo 0123456789012345678901234567890123456789 || exit 3; done\n",
		"tar":      "echo disk full >&2; exit 2\n",
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	wantError(t, unpackDeb(ctx, "x.deb", t.TempDir(), leftOut), "disk full")
	if ctx.Err() != nil {
		t.Error("it ended at the deadline only")
	}
}

// Debian 13's packages have all of /lib in /usr/lib.
func TestArrange(t *testing.T) {
	for _, lib := range []string{"lib", "usr/lib"} {
		t.Run(lib, func(t *testing.T) { checkArrange(t, lib) })
	}
}

func checkArrange(t *testing.T, lib string) {
	set := kernelSet{"6.1.9", "linux-image-6.1.9", "linux-headers-6.1.9", "linux-headers-6.1.9-common", "linux-kbuild-6.1", "", ""}
	raw, tree := t.TempDir(), t.TempDir()
	fill := func(names ...string) {
		for _, name := range names {
			plantFile(t, filepath.Join(raw, name), "old")
		}
	}
	files := []string{"boot/vmlinuz-6.1.9", "boot/config-6.1.9", lib + "/modules/6.1.9/kernel/a.ko",
		"usr/src/linux-headers-6.1.9/Makefile", "usr/src/linux-headers-6.1.9-common/arch/x86/a.h",
		"usr/src/linux-headers-6.1.9-common/arch/arm/a.h", "usr/src/linux-headers-6.1.9-common/Makefile"}
	fill(files...)
	wantError(t, arrangeFiles(raw, t.TempDir(), set), "does not hold what it should")
	fill(append(files, "usr/lib/linux-kbuild-6.1/scripts/b", "usr/lib/linux-kbuild-6.1/tools/c")...)
	if err := arrangeFiles(raw, tree, set); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(tree, moved); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vmlinuz", "config", "lib/modules/6.1.9/kernel/a.ko", "headers/scripts/b", "headers/tools/c", "headers/common/scripts/b",
		"headers/common/arch/x86/a.h", "lib/modules/6.1.9/build/common/Makefile", "lib/modules/6.1.9/source/tools/c"} {
		if !exists(filepath.Join(moved, name)) {
			t.Errorf("%s is missing or leads elsewhere", name)
		}
	}
	if exists(filepath.Join(moved, "headers/common/arch/arm")) {
		t.Error("headers of another architecture are kept")
	}
	text, err := os.ReadFile(filepath.Join(moved, "headers/Makefile"))
	if err != nil || strings.Contains(string(text), tree) || !strings.Contains(string(text), "common/Makefile") {
		t.Errorf("the Makefile says %q, %v", text, err)
	}
}
