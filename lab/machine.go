// SPDX-License-Identifier: MIT

package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"skep/internal/load"
	"skep/lab/wire"
)

// Limits of a Machine. Larger values are mistakes, or more than the emulator can run.
const (
	cpusMax   = 64
	memoryMin = 256
	memoryMax = 64 << 10
	nodesMax  = 64
	disksMax  = 8
	diskMax   = 16 << 10
	delayMax  = 10 * time.Second
)

// withDefaults returns m with its defaults and its build folder, or an error if a value is
// invalid.
func (m Machine) withDefaults() (Machine, error) {
	setDefault(&m.Name, "vm")
	setDefault(&m.Kernel, Series()[0])
	setDefault(&m.CPUs, 2)
	setDefault(&m.Threads, 1)
	setDefault(&m.Memory, 1024)
	setDefault(&m.NUMA, 1)
	if m.Build == "" {
		build, err := BuildDir()
		if err != nil {
			return m, err
		}
		m.Build = build
	}
	build, err := filepath.Abs(m.Build)
	if err != nil {
		return m, err
	}
	if m.Build, err = filepath.EvalSymlinks(build); err != nil {
		return m, fmt.Errorf("the build folder: %w: run make", err)
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("machine %q: %w", m.Name, err)
	}
	return m, nil
}

// Check returns the error that Start would return because of the description alone.
func (m Machine) Check() error {
	_, err := m.withDefaults()
	return err
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func (m *Machine) check() error {
	if !plainName(m.Name) {
		return errors.New("its name must be letters, digits and ._-, begin with a letter or digit and have 63 at most")
	}
	if strings.ContainsAny(m.Build, ",:\\\n ") {
		return fmt.Errorf("the build folder %q has a character that QEMU or a mount takes for its own: move the tree", m.Build)
	}
	if strings.ContainsFunc(m.Append, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("Append has a character that no kernel command line may have")
	}
	if len(m.Append) > 1024 {
		return fmt.Errorf("Append has %d bytes, at most 1024", len(m.Append))
	}
	if err := m.checkSizes(); err != nil {
		return err
	}
	for i, d := range m.Disks {
		if d.MiB < 1 || d.MiB > diskMax {
			return fmt.Errorf("disk %d of %d MiB: 1 to %d", i, d.MiB, diskMax)
		}
	}
	for _, name := range m.Modules {
		if !plainName(name) {
			return fmt.Errorf("%q is not the name of a module", name)
		}
	}
	return nil
}

func (m *Machine) checkSizes() error {
	for _, f := range []struct {
		what       string
		have, a, b int
	}{
		{"CPUs", m.CPUs, 1, cpusMax},
		{"Threads", m.Threads, 1, 2},
		{"Memory in MiB", m.Memory, memoryMin, memoryMax},
		{"NUMA", m.NUMA, 1, 8},
		{"Nodes", m.Nodes, 0, nodesMax},
		{"number of Disks", len(m.Disks), 0, disksMax},
	} {
		if f.have < f.a || f.have > f.b {
			return fmt.Errorf("%s is %d: %d to %d", f.what, f.have, f.a, f.b)
		}
	}
	switch {
	case m.CPUs%m.NUMA != 0 || m.Memory%m.NUMA != 0:
		return fmt.Errorf("%d CPUs and %d MiB do not divide evenly among %d NUMA nodes", m.CPUs, m.Memory, m.NUMA)
	case m.CPUs/m.NUMA%m.Threads != 0:
		return fmt.Errorf("%d CPUs of each NUMA node are no whole cores of %d", m.CPUs/m.NUMA, m.Threads)
	case m.Memory/m.NUMA < 128:
		return fmt.Errorf("%d MiB per NUMA node: at least 128", m.Memory/m.NUMA)
	case m.Delay < 0 || m.Delay > delayMax:
		return fmt.Errorf("Delay is %v: 0 to %v", m.Delay, delayMax)
	case !(m.Loss >= 0 && m.Loss <= 1): // NaN too
		return fmt.Errorf("Loss is %v: 0 to 1", m.Loss)
	case m.Nodes == 0 && (m.Delay != 0 || m.Loss != 0):
		return errors.New("Delay and Loss belong to Nodes, and there are none")
	}
	return nil
}

// plainName reports whether s may be a machine's name, which becomes a file name, a host
// name and part of an option.
func plainName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if s == "" || len(s) > 63 || !strings.Contains(letters, s[:1]) && (s[0] < '0' || s[0] > '9') {
		return false
	}
	return strings.Trim(s, letters+"0123456789._-") == ""
}

// dir returns the machine's folder, the only one that it writes to.
func (m *Machine) dir() string { return filepath.Join(m.Build, "lab", m.Name) }

// guestConfig returns the description of the machine for process 1.
func (m *Machine) guestConfig(k *Kernel, root []string) (*wire.Config, error) {
	tree, err := filepath.EvalSymlinks(k.ModuleDir())
	if err != nil {
		return nil, err
	}
	c := &wire.Config{
		Name: m.Name, Release: k.Release, Root: root, Tree: tree, Build: m.Build,
		Nodes: m.Nodes, Delay: m.Delay, Loss: m.Loss, TimeoutScale: int(load.Scale() + 0.5),
	}
	for i, d := range m.Disks {
		if d.Swap {
			c.Swap = append(c.Swap, "/dev/vd"+string(rune('a'+i)))
		}
	}
	if m.Wire != nil {
		c.Address = m.Wire.address() + "/24"
		c.Hosts = m.Wire.hosts(m.Name)
	}
	if m.Wire == nil {
		c.Hosts = append(c.Hosts, "127.0.1.1 "+m.Name)
	}
	for n := 1; n <= m.Nodes; n++ {
		c.Hosts = append(c.Hosts, fmt.Sprintf("10.77.0.%d node%d", n, n))
	}
	for _, name := range m.Modules {
		module, err := m.findModule(k, name)
		if err != nil {
			return nil, err
		}
		c.Modules = append(c.Modules, module)
	}
	return c, nil
}

// findModule finds a module: ours if it was built for this kernel, else the kernel's own.
func (m *Machine) findModule(k *Kernel, name string) (wire.Module, error) {
	file := filepath.Join(m.Build, "kmod", m.Kernel, name, name+".ko")
	if exists(file) {
		return wire.Module{Name: name, File: file}, nil
	}
	if _, err := k.Closure(name); err != nil {
		return wire.Module{}, fmt.Errorf("module %q: %s is not there (run make) and %w", name, file, err)
	}
	return wire.Module{Name: name}, nil
}
