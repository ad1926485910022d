// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"skep/dynamos/update/pack"
	"skep/lab"
)

// Variables of the process that builds elsewhere: the package that it builds again, and whether
// it prepares a source of its own, which takes minutes.
const (
	againVar = "SKEP_SABOTAGE_AGAIN"
	aloneVar = "SKEP_SABOTAGE_ALONE"
)

// Operators sign the same bytes, whoever builds: in another folder, of another name and home,
// with another mask of modes, language, zone, number of jobs and day, and with variables that
// Kbuild or compilers take.
func TestSabotageFreeMachinesBuildAlike(t *testing.T) {
	kernel := sabotageKernel(t)
	if file := os.Getenv(againVar); file != "" {
		buildAgain(t, file, kernel)
		return
	}
	first, err := Build(t.Context(), Plan{Name: "arp", Patch: arpPatch(t), Kernels: []string{kernel}, Says: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := lab.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "alike-") // links do not leave a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file, sources := filepath.Join(dir, "first"+pack.Suffix), filepath.Join(dir, "cache/skep/source")
	if err := pack.WriteFile(file, first); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"home", "tmp", "cache/skep/source"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(aloneVar) == "" {
		if out, err := exec.Command("cp", "-al", filepath.Join(cache, "source", kernel), sources).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	other := exec.CommandContext(t.Context(), "sh", "-c", `umask 077; exec "$0" "$@"`, os.Args[0], "-test.run", "^"+t.Name()+"$")
	other.Dir = filepath.Join(dir, "home")
	other.Env = []string{"PATH=" + os.Getenv("PATH"), sabotageVar + "=" + kernel, againVar + "=" + file, "SKEP_BUILD=" + build,
		"HOME=" + other.Dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"USER=other", "LOGNAME=other", "TZ=Pacific/Kiritimati", "LC_ALL=tr_TR.UTF-8", "MAKEFLAGS=-j7", "SOURCE_DATE_EPOCH=86400",
		"KBUILD_BUILD_USER=other", "KBUILD_BUILD_TIMESTAMP=86400", "KCPPFLAGS=-frecord-gcc-switches", "KAFLAGS=-g"}
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(file + ".again")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, again) {
		t.Errorf("two machines build %d and %d bytes that differ", len(one), len(again))
	}
}

// buildAgain does what the build service does with a package.
func buildAgain(t *testing.T, file, kernel string) {
	from, err := pack.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Rebuild(t.Context(), from, kernel, io.Discard, Build)
	if err != nil {
		t.Fatal(err)
	}
	if err := pack.WriteFile(file+".again", p); err != nil {
		t.Fatal(err)
	}
}
