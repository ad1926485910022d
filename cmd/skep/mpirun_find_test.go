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

// If O2G's provider is missing beside skep, the error says so; with --tcp the program runs.
func TestMpirunWithoutTheProvider(t *testing.T) {
	prefix := t.TempDir()
	t.Setenv(cli.StateVariable, t.TempDir())
	launcher := filepath.Join(prefix, "bin", "mpiexec")
	if err := os.MkdirAll(filepath.Dir(launcher), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\necho 'HYDRA build details:'\necho '    Version:     5.0.2'\n"
	if err := os.WriteFile(launcher, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	m := &mpirun{prefix: prefix}
	if r, err := m.newRunner(t.Context(), []string{"/bin/true"}); err == nil || !strings.Contains(err.Error(), "libo2g-fi.so is not in") {
		t.Errorf("%+v, %v", r, err)
	}
	m.job.TCP = true
	if r, err := m.newRunner(t.Context(), []string{"/bin/true", "x"}); err != nil || r.Install.Version != "5.0.2" || r.Provider != "" || len(m.job.Program) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// skep uses the bee in its own folder.
func TestLoaderInTheFolderOfSkep(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if path, err := beePath(); err != nil || path != filepath.Join(filepath.Dir(self), "bee") {
		t.Errorf("%q, %v", path, err)
	}
}
