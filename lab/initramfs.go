// SPDX-License-Identifier: MIT

package lab

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"skep/lab/wire"
)

// rootModules returns the names of the modules that the guest loads before it can see the
// host's files: those of the root file system and of its devices, and those of its nodes,
// which are found faster here than in the guest.
func (m *Machine) rootModules() []string {
	names := []string{"virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"}
	if len(m.Disks) > 0 {
		names = append(names, "virtio_blk")
	}
	if m.Wire != nil {
		names = append(names, "virtio_net")
	}
	if m.Nodes > 0 {
		names = append(names, "bridge", "veth")
	}
	if m.Delay > 0 || m.Loss > 0 {
		names = append(names, "sch_netem")
	}
	return names
}

// writeInitramfs writes the guest's first root file system: process 1, the modules that the
// real root needs, and the machine's description. It is not compressed, because copying is
// faster than unpacking in the emulator.
func (m *Machine) writeInitramfs(k *Kernel, f *os.File) error {
	guest, err := GuestProgram(m.Build)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(guest)
	if err == nil {
		err = standsAlone(program)
	}
	if err != nil {
		return fmt.Errorf("process 1 of the guest, %s: %w: run make", guest, err)
	}
	files, err := k.Closure(m.rootModules()...)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	c := &cpio{w: w}
	for _, dir := range []string{"/dev", "/proc", "/sys", "/modules"} {
		c.addDir(dir)
	}
	c.addFile("/init", true, program)
	root, err := addModules(c, files)
	if err != nil {
		return err
	}
	config, err := m.guestConfig(k, root)
	if err != nil {
		return err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	c.addFile(wire.ConfigFile, false, text)
	if err := c.close(); err != nil {
		return err
	}
	return w.Flush()
}

// standsAlone returns an error for a program that needs a dynamic loader, which the
// initramfs lacks.
func standsAlone(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is linked dynamically")
		}
	}
	return nil
}

func addModules(c *cpio, files []string) (names []string, err error) {
	for i, file := range files {
		data, err := ReadModule(file)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("/modules/%02d-%s.ko", i, moduleName(file))
		c.addFile(name, false, data)
		names = append(names, name)
	}
	return names, nil
}
