// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

// plantLibrary puts what an installation has beside the program of this test.
func plantLibrary(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Dir(self)
	include := filepath.Join(filepath.Dir(bin), "include")
	if err := os.MkdirAll(include, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(bin, "libskepworker.a"), filepath.Join(include, "OmniRpc.h")} {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(path) })
	}
}

// What a compiler makes must be a worker of the module, or nothing is written.
func TestGenRefusesOtherPrograms(t *testing.T) {
	plantLibrary(t)
	dir := t.TempDir()
	t.Chdir(dir)
	compiler := filepath.Join(dir, "cc")
	script := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho text >\"$2\"\n"
	if err := os.WriteFile(compiler, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, backend := range map[string]string{"plain": "", "ranks": "\nBackend \"MPI\"\n"} {
		text := "Module " + name + ";\nDefine f(IN int n)" + backend + "\n{ }\n"
		if err := os.WriteFile(name+".idl", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{"", "other"} {
			words, want := []string{"gen", "--build", "--cc", compiler, name + ".idl"}, name+".rex"
			if out != "" {
				words, want = append(words, "-o", out), out
			}
			_, code, said := outputOf(t, words...)
			if code != cli.Failed || !strings.HasPrefix(said, "gen: "+want+": ") {
				t.Errorf("%v: %d, %s", words, code, said)
			}
			if _, err := os.Stat(want); err == nil {
				t.Errorf("%s was written", want)
			}
		}
	}
}
