// SPDX-License-Identifier: MIT

//go:build linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a computer without package lists they are downloaded; a failure is named.
func TestSiteOfAComputerWithoutLists(t *testing.T) {
	const late = "Debian\tDebian\tmain\thttp://a.example/debian\n"
	for _, c := range []struct{ update, lists, want, wrong string }{
		{"exit 0", late, "http://a.example/debian", ""},
		{"exit 1", late, "http://a.example/debian", ""}, // a source that is not Debian's failed
		{"exit 1", "", "", "cannot find where this computer gets Debian packages from"},
		{"exit 0", "", "", "no package source of this computer is Debian's"},
	} {
		fakeApt(t, map[string]string{"apt-get": `for last; do :; done
case $last in update) ` + c.update + ` ;; esac
case $1 in -o) printf '%s' '` + c.lists + `' ;; esac
`})
		s, err := findSite(context.Background(), t.TempDir())
		if s.main != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s, %q: %v, %v", c.update, c.lists, s, err)
		}
	}
}

// The counter accepts as many ranges and addresses as its limits say, and processor
// numbers of 16 bits.
func TestLimitsOfTheCounter(t *testing.T) {
	build := t.TempDir()
	t.Setenv("SKEP_BUILD", build)
	plantFile(t, filepath.Join(build, "lib", "skep-count.so"), "")
	var c Count
	for i := range uint64(countPoints) {
		c.At = append(c.At, i)
	}
	for i := range uint64(countRanges) {
		c.Ranges = append(c.Ranges, Range{string(rune('a' + i)), i, i + 1})
	}
	if _, err := c.qemuArgs("out"); err != nil {
		t.Error(err)
	}
	for cpu, good := range map[string]bool{"65535": true, "65536": false, "131071": false} {
		_, err := parseCounts(strings.Replace(goodCounts, "1 lost 0\n", "1 lost 0\n"+cpu+" lost 0\n", 1))
		if (err == nil) != good {
			t.Errorf("processor %s: %v", cpu, err)
		}
	}
}

// If data and code begin at one address, the bytes behind it belong to the code.
func TestSymbolBehindTwo(t *testing.T) {
	s, err := ReadSymbols(strings.NewReader("ffffffff81000000 D data\nffffffff81000000 T code\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Name(0xffffffff81000010); got != "code+0x10" {
		t.Error(got)
	}
}

// The error for too little disk space says how much there is and how much is needed.
func TestDebugKernelNeedsRoom(t *testing.T) {
	k := debugRecipe(t, goodBuild)
	if err := k.checkSpace(debugSpace); err != nil {
		t.Error(err)
	}
	err := k.checkSpace(5 << 20)
	wantError(t, err, "has 5 MB free")
	wantError(t, k.checkSpace(debugSpace-1), "takes 5120 MB")
}

// A debug kernel is built, never fetched.
func TestDebugKernelIsNotFetched(t *testing.T) {
	build := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, want := FindKernel(build, "6.1-debug")
	_, err := FetchKernel(context.Background(), build, "6.1-debug", io.Discard)
	if err == nil || want == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
}

// objectFile is an object for x86-64 without tables.
func objectFile() []byte {
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = append(b, 1, 0, 62, 0, 1, 0, 0, 0)
	b = append(b, make([]byte, 28)...)
	return append(b, 64, 0, 56, 0, 0, 0, 64, 0, 0, 0, 0, 0)
}

// Process 1 loads the modules of the initramfs in order, by their names there. A write
// error makes writeInitramfs fail.
func TestInitramfs_modules(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"b_c.ko", "a.ko"} {
		files = append(files, filepath.Join(dir, name))
		plantFile(t, files[len(files)-1], string(objectFile()))
	}
	var names []string
	text := archiveOf(t, func(c *cpio) {
		var err error
		if names, err = addModules(c, files); err != nil {
			t.Error(err)
		}
	})
	if len(names) != 2 {
		t.Fatalf("%q", names)
	}
	for i, want := range []string{"/modules/00-", "/modules/01-"} {
		if !strings.HasPrefix(names[i], want) || !bytes.Contains(text, []byte(strings.TrimPrefix(names[i], "/")+"\x00")) {
			t.Errorf("%q are named", names)
		}
	}
	build := t.TempDir()
	k := fakeKernel(t, build)
	plantFile(t, filepath.Join(build, "bin", "skep-guest"), string(objectFile()))
	m, err := Machine{Build: build, Name: "a"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := m.writeInitramfs(k, full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

// Packets written at one end of a link arrive whole at the other. A closed end can't be
// given to a guest.
func TestWireCarriesPackets(t *testing.T) {
	a, b, err := NewWire()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	held, err := a.copy()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, text := range []string{"one", "two"} {
		if _, err := held.file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 100)
	for _, want := range []string{"one", "two"} {
		n, err := b.file.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("%q, %v", got[:n], err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if w, err := a.copy(); err == nil {
		t.Errorf("a closed end gave %v", w)
	}
}

func TestImageWithoutXZ(t *testing.T) {
	xz := exec.Command("xz", "-c", "--check=crc32")
	xz.Stdin = bytes.NewReader(kernelText())
	packed, err := xz.Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = UnpackImage(wrapPayload(packed, len(kernelText())))
	wantError(t, err, "run make setup")
}
