// SPDX-License-Identifier: MIT

package lab

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"skep/lab/wire"
)

func TestMachine_defaults(t *testing.T) {
	build := t.TempDir()
	m, err := Machine{Build: build}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	want := Machine{Name: "vm", Kernel: "6.1", CPUs: 2, Threads: 1, Memory: 1024, NUMA: 1, Build: build}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("defaults are %+v", m)
	}
}

func TestMachine_refused(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Machine
		why  string
	}{
		{"name with a slash", Machine{Name: "../x"}, "name"},
		{"name with a comma", Machine{Name: "a,b"}, "name"},
		{"name of dots", Machine{Name: ".."}, "name"},
		{"long name", Machine{Name: strings.Repeat("n", 64)}, "name"},
		{"too many processors", Machine{CPUs: 65}, "CPUs"},
		{"negative processors", Machine{CPUs: -1}, "CPUs"},
		{"little memory", Machine{Memory: 64}, "Memory"},
		{"uneven nodes", Machine{CPUs: 3, NUMA: 2}, "evenly"},
		{"half a core", Machine{CPUs: 3, Threads: 2}, "no whole cores"},
		{"small nodes", Machine{CPUs: 8, Memory: 512, NUMA: 8}, "per NUMA node"},
		{"empty disk", Machine{Disks: []Disk{{}}}, "disk 0"},
		{"many disks", Machine{Disks: make([]Disk, 9)}, "Disks"},
		{"many nodes", Machine{Nodes: 65}, "Nodes"},
		{"loss above one", Machine{Nodes: 2, Loss: 1.5}, "Loss"},
		{"loss of no number", Machine{Nodes: 2, Loss: math.NaN()}, "Loss"},
		{"delay without nodes", Machine{Delay: time.Second}, "there are none"},
		{"negative delay", Machine{Nodes: 2, Delay: -1}, "Delay"},
		{"line break in Append", Machine{Append: "a\nb"}, "Append"},
		{"long Append", Machine{Append: strings.Repeat("a", 1025)}, "Append"},
		{"module with a slash", Machine{Modules: []string{"../../x"}}, "module"},
		{"option as a module", Machine{Modules: []string{"-r"}}, "module"},
	} {
		c.m.Build = t.TempDir()
		if _, err := c.m.withDefaults(); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want a word of %q", c.name, err, c.why)
		}
	}
}

func TestMachine_buildFolder(t *testing.T) {
	if _, err := (Machine{Build: filepath.Join(t.TempDir(), "none")}).withDefaults(); err == nil || !strings.Contains(err.Error(), "run make") {
		t.Errorf("a missing build folder: %v", err)
	}
	odd := filepath.Join(t.TempDir(), "a,b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (Machine{Build: odd}).withDefaults(); err == nil || !strings.Contains(err.Error(), "move the tree") {
		t.Errorf("a build folder with a comma: %v", err)
	}
}

// fakeKernel creates a folder that looks like a fetched kernel.
func fakeKernel(t *testing.T, build string) *Kernel {
	t.Helper()
	k := &Kernel{Series: "6.1", Release: "6.1.0-1-amd64", Dir: filepath.Join(build, "kernel", "6.1")}
	for name, text := range map[string]string{
		"release": k.Release + "\n", "vmlinuz": "", "config": "", "headers/Makefile": "",
		"lib/modules/6.1.0-1-amd64/modules.dep":     "kernel/veth.ko:\n",
		"lib/modules/6.1.0-1-amd64/modules.builtin": "kernel/virtio_pci.ko\nkernel/virtio_console.ko\nkernel/9pnet_virtio.ko\nkernel/9p.ko\nkernel/overlay.ko\n",
	} {
		path := filepath.Join(k.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func TestMachine_config(t *testing.T) {
	build := t.TempDir()
	k := fakeKernel(t, build)
	ours := filepath.Join(build, "kmod", "6.1", "o2g", "o2g.ko")
	if err := os.MkdirAll(filepath.Dir(ours), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ours, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Machine{
		Build: build, Name: "a", Nodes: 2, Delay: time.Millisecond, Loss: 0.5,
		Wire: &Wire{end: 2, peer: "b"}, Modules: []string{"veth", "o2g"},
		Disks: []Disk{{MiB: 1}, {MiB: 2, Swap: true}},
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.guestConfig(k, []string{"/modules/00-x.ko"})
	if err != nil {
		t.Fatal(err)
	}
	c.TimeoutScale = 0 // depends on the load
	want := &wire.Config{
		Name: "a", Release: k.Release, Root: []string{"/modules/00-x.ko"}, Tree: k.ModuleDir(), Build: build,
		Modules: []wire.Module{{Name: "veth"}, {Name: "o2g", File: ours}}, Swap: []string{"/dev/vdb"},
		Address: "10.78.0.2/24", Nodes: 2, Delay: time.Millisecond, Loss: 0.5,
		Hosts: []string{"10.78.0.2 a", "10.78.0.1 b", "10.77.0.1 node1", "10.77.0.2 node2"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("config is\n%+v, want\n%+v", c, want)
	}
	m.Modules = []string{"nonesuch"}
	if _, err := m.guestConfig(k, nil); err == nil || !strings.Contains(err.Error(), "run make") {
		t.Errorf("a module that nobody has: %v", err)
	}
}

func TestInitramfs_guestMissing(t *testing.T) {
	build := t.TempDir()
	k := fakeKernel(t, build)
	m, err := Machine{Build: build}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(build, "initramfs"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := m.writeInitramfs(k, to); err == nil || !strings.Contains(err.Error(), "run make") {
		t.Errorf("without a guest program: %v", err)
	}
	// This test program is an ELF file, with or without a loader; a script is none.
	guest := filepath.Join(build, "bin", "skep-guest")
	if err := os.Mkdir(filepath.Dir(guest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guest, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.writeInitramfs(k, to); err == nil || !strings.Contains(err.Error(), "run make") {
		t.Errorf("with a script as guest program: %v", err)
	}
}
