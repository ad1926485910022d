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

// skep gen runs the preprocessor on files with directives, with the options for it.
func TestGenRunsThePreprocessor(t *testing.T) {
	plantLibrary(t)
	dir := t.TempDir()
	t.Chdir(dir)
	files := map[string]string{
		"sub/a.idl":      "#include \"beside.h\"\n#include <size.h>\nModule a;\nDefine f(OUT int x[SIZE + MORE]) { }\n",
		"sub/beside.h":   "#define MORE 2\n",
		"include/size.h": "#define SIZE 40\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, code, said := outputOf(t, "gen", "--manifest", "sub/a.idl", "--", "-I", "include")
	if code != 0 || !strings.Contains(out, "x[42]") && !strings.Contains(out, "x[40 + 2]") {
		t.Errorf("%d, %s\n%s", code, said, out)
	}
	if _, code, said = outputOf(t, "gen", "-o", "made", "sub/a.idl", "--", "-Iinclude", "-DX", "-UY"); code != 0 {
		t.Errorf("%d, %s", code, said)
	}
	if text, err := os.ReadFile("made/a_stub.c"); err != nil || !strings.Contains(string(text), "#line 4 \"sub/a.idl\"") {
		t.Errorf("%v, %s", err, text)
	}
	if _, code, said = outputOf(t, "gen", "-o", "none", "sub/a.idl"); code != cli.Failed || !strings.Contains(said, "nothing was written") {
		t.Errorf("%d, %s", code, said)
	}
	if _, code, said = outputOf(t, "gen", "-o", "none", "sub/a.idl", "--", "-O2"); code != cli.Usage {
		t.Errorf("%d, %s", code, said)
	}
	if _, err := os.Stat("none"); err == nil {
		t.Error("a stub was written")
	}
}
