// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/internal/cli"
)

// A hub moves to another state directory by a backup, and its node, with its identity of
// before, works for it.
func TestBackupAndRestore(t *testing.T) {
	dir, err := os.MkdirTemp("", "backup") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	moved, file := filepath.Join(dir, "moved"), filepath.Join(dir, "hub.tar")
	run := func(line string, code int, want string) {
		t.Helper()
		out, got, text := outputOf(t, strings.Fields(line)...)
		if got != code || !strings.Contains(out+text, want) {
			t.Errorf("%s: %d %s%s", line, got, out, text)
		}
	}
	run("backup", cli.Usage, "a file is expected")
	run("backup a b", cli.Usage, `"b"`)
	run("restore", cli.Usage, "a file is expected")
	run("restore a b", cli.Usage, `"b"`)
	run("backup --state "+dir+" "+file, cli.Unreachable, "no hub runs")
	run("restore --state "+dir+" "+file, cli.Failed, "no such file")

	cfg := hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	h, err := hub.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	state := filepath.Join(dir, "node")
	if err := joinHere(t.Context(), h, &agent.Config{State: state, Name: "pc"}); err != nil {
		t.Fatal(err)
	}
	run("backup --state "+dir+" "+filepath.Join(dir, "none", "hub.tar"), cli.Failed, "the backup was not made: ")
	if err := os.WriteFile(file, []byte("of yesterday"), 0o644); err != nil {
		t.Fatal(err)
	}
	run("backup --state "+dir+" "+file, 0, "")
	if i, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	run("restore --state "+dir+" --replace "+file, cli.Failed, "nothing was restored: a hub uses ")
	cfg.State, cfg.Listen = hubState(moved), h.Address().String()
	h.Close()
	run("restore --state "+dir+" "+file, cli.Failed, "--replace renames it")
	run("restore --state "+moved+" "+file, 0, hubState(moved)+" has the state of the hub as of 2")
	if h, err = hub.Open(cfg); err != nil {
		t.Fatal(err)
	}
	startAgent(t, state).waitForLine(t, "connected to the hub")
	if nodes, err := hub.SelectNodes(h.Nodes(), "node=pc"); err != nil || len(nodes) != 1 {
		t.Errorf("the node: %v, %v", nodes, err)
	}
	for _, mode := range []os.FileMode{0o600, 0o604} {
		os.Chmod(file, mode)
		text := printedBy(t, &os.Stderr, func() { run("restore --state "+dir+" "+file, cli.Failed, "--replace renames it") })
		if warns := strings.Contains(text, "other users can read "+file+", "); warns != (mode&0o077 != 0 && runtime.GOOS != "windows") {
			t.Errorf("with mode %o: %s", mode, text)
		}
	}
	run("restore --state "+dir+" --replace "+file, 0, "has the state")
	if old, _ := filepath.Glob(hubState(dir) + ".before-*"); len(old) != 1 {
		t.Errorf("the state of before is %q", old)
	}
}

// Each right of others alone makes a file exposed. A mode that cannot be read does too.
func TestExposedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Windows do not say who may read a file")
	}
	file, err := os.CreateTemp(t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	for mode := os.FileMode(0o600); mode <= 0o700; mode += 0o100 {
		for _, other := range []os.FileMode{0, 1, 2, 4, 0o10, 0o20, 0o40} {
			if err := file.Chmod(mode | other); err != nil {
				t.Fatal(err)
			}
			if got := isExposed(file); got != (other != 0) {
				t.Errorf("mode %o: %v", mode|other, got)
			}
		}
	}
	file.Close()
	if !isExposed(file) {
		t.Error("a closed file is not exposed")
	}
}

// A backup that was cut off on its way leaves the file of before, and nothing else.
func TestBackupThatIsCutOff(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hub.tar")
	if err := os.WriteFile(file, []byte("of yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []io.Reader{strings.NewReader(""), bytes.NewReader(make([]byte, 100)), io.MultiReader(strings.NewReader("x"), errReader{})} {
		if _, err := storeBackup(file, from); err == nil {
			t.Error("it is taken for whole")
		}
	}
	list, err := os.ReadDir(dir)
	if b, _ := os.ReadFile(file); err != nil || len(list) != 1 || string(b) != "of yesterday" {
		t.Errorf("%v, %q, %v", list, b, err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
