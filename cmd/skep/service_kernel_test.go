// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update"
	"skep/internal/uapi"
	lent "skep/shimos/part"
)

// keepIn makes the tests store updates and the allowance below dir.
func keepIn(t *testing.T, dir string) {
	t.Helper()
	old := newKeep
	newKeep = func() *update.Keep { return &update.Keep{Dir: dir, Run: dir + "-run"} }
	t.Cleanup(func() { newKeep = old })
}

func writeSys(t *testing.T, sys string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(sys, "module", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The loaded modules and their settings are restored.
func TestServiceKernelModules(t *testing.T) {
	sys := t.TempDir()
	writeSys(t, sys, map[string]string{"o2g/parameters/user_megabytes": "64\n", "o2g/parameters/engines": "3\n",
		"shimos/parameters/image": "/usr/lib/skep/sms.image\n", "ext4/parameters/x": "1\n"})
	names, settings, err := loadedModules(sys)
	if err != nil || !slices.Equal(names, []string{"o2g", "shimos"}) ||
		!slices.Equal(settings, []string{"options o2g user_megabytes=64", "options shimos image=/usr/lib/skep/sms.image"}) {
		t.Errorf("%v, %v, %v", names, settings, err)
	}
	writeSys(t, sys, map[string]string{"shimos/parameters/image": "/a b; rm -rf /\n"})
	if _, _, err := loadedModules(sys); err == nil || !strings.Contains(err.Error(), "a file of modprobe cannot hold") {
		t.Errorf("a value that modprobe would read as two words: %v", err)
	}
	p := &setup{installation: installation{name: kernelService}}
	if p.systemd, err = newSystemd(t.TempDir(), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if changed, err := p.writeModules(names, settings); err != nil || changed != want {
			t.Errorf("%v, %v", changed, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(p.systemd.Root, settingsFile))
	if err != nil || !strings.HasSuffix(string(text), "\n"+strings.Join(settings, "\n")+"\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if changed, err := p.removeModules(); !changed || err != nil || len(filesBelow(t, p.systemd.Root)) > 0 {
		t.Errorf("%v, %v: left %v", changed, err, filesBelow(t, p.systemd.Root))
	}
}

// An allowance is stored if the kernel service is installed, and removed by --nobody.
func TestServiceKernelAllowance(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keep")
	keepIn(t, dir)
	a := lent.Allowance{Group: 7}
	if err := keepAllowance(a); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something is kept that nobody asked for")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := keepAllowance(a); err != nil || len(filesBelow(t, dir)) != 1 {
		t.Errorf("%v: %v", err, filesBelow(t, dir))
	}
	if list, err := newKeep().List(); err != nil || len(list) != 0 {
		t.Errorf("it is taken for an update: %v, %v", list, err)
	}
	if err := keepAllowance(lent.Allowance{Group: uapi.ShimosNobody}); err != nil || len(filesBelow(t, dir)) != 0 {
		t.Errorf("%v: %v", err, filesBelow(t, dir))
	}
	if err := restoreAllowance(); err != nil {
		t.Errorf("without one: %v", err)
	}
}

// Rolls are served at once. What does not come back is told, and ends no roll.
func TestServiceKernelServesWhileSettling(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release, told := make(chan struct{}), make(chan error, 1)
	fault := errors.New("fix does not come back")
	finish := func(context.Context) error { <-release; return fault }
	stays := false
	stay := func(ctx context.Context) error { stays = true; <-ctx.Done(); return nil }
	err := serveWhileSettling(ctx, finish, stay, func(err error) { told <- err }, func(ctx context.Context, settles func() bool) error {
		if !settles() {
			t.Error("nothing is settling")
		}
		close(release)
		if err := <-told; !errors.Is(err, fault) {
			t.Error(err)
		}
		for settles() {
			runtime.Gosched()
		}
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !stays {
		t.Error(err, stays)
	}
	// If it cannot serve, it does not wait for the updates.
	broken := errors.New("no socket")
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := serveWhileSettling(t.Context(), waits, waits, func(err error) { t.Error(err) }, func(context.Context, func() bool) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}
