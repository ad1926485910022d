// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk that is full is found before the measuring. A limit of the size of files stands in
// for it.
func TestBenchFindsAFullDisk(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = reportRoom / 2
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	name := filepath.Join(t.TempDir(), "result.json")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	out, code, text := outputOf(t, "bench", "--report", name)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if code != 1 || out != "" || !strings.Contains(text, name+" can't be written: file too large; nothing was measured") {
		t.Errorf("%d, %s, %s", code, text, out)
	}
	if list, err := os.ReadDir(filepath.Dir(name)); err != nil || len(list) != 0 {
		t.Errorf("left are %v, %v", list, err)
	}
}
