// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxModule limits the size of an unpacked module; the largest are below 20 MiB.
const maxModule = 64 << 20

// Closure returns the paths of these modules and of all that they need, each once, in the
// order in which they can be loaded. Modules that are built into the kernel are omitted.
// As in modprobe, - and _ are equal.
func (k *Kernel) Closure(names ...string) ([]string, error) {
	order, err := FindClosure(k.ModuleDir(), names...)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Release, err)
	}
	return order, nil
}

// FindClosure is Closure for a folder such as /lib/modules/RELEASE.
func FindClosure(dir string, names ...string) ([]string, error) {
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	order, err := moduleClosure(string(dep), string(builtin), names)
	if err != nil {
		return nil, err
	}
	for i, p := range order {
		order[i] = filepath.Join(dir, p)
	}
	return order, nil
}

// moduleClosure reads modules.dep, whose lines are "a.ko: b.ko c.ko", and modules.builtin,
// with one path per line. It returns the paths as in these files.
func moduleClosure(dep, builtin string, names []string) ([]string, error) {
	needs, byName, err := parseDep(dep)
	if err != nil {
		return nil, err
	}
	inside := map[string]bool{}
	for _, line := range strings.Fields(builtin) {
		inside[moduleName(line)] = true
	}
	var order []string
	seen := map[string]bool{}
	var visit func(file string)
	visit = func(file string) {
		if seen[file] {
			return
		}
		seen[file] = true
		// depmod lists the module that must be loaded first as the last.
		for _, need := range slices.Backward(needs[file]) {
			visit(need)
		}
		order = append(order, file)
	}
	for _, name := range names {
		file, ok := byName[moduleName(name)]
		switch {
		case ok:
			visit(file)
		case !inside[moduleName(name)]:
			return nil, fmt.Errorf("there is no module %q", name)
		}
	}
	return order, nil
}

func parseDep(text string) (needs map[string][]string, byName map[string]string, err error) {
	needs, byName = map[string][]string{}, map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		file, rest, ok := strings.Cut(line, ":")
		files := append([]string{file}, strings.Fields(rest)...)
		for _, f := range files {
			ok = ok && filepath.IsLocal(f)
		}
		if !ok {
			return nil, nil, fmt.Errorf("modules.dep:%d: want a path, a colon and paths", i+1)
		}
		needs[file] = files[1:]
		byName[moduleName(file)] = file
	}
	return needs, byName, nil
}

// moduleName converts "virtio-net" and "kernel/x/virtio_net.ko.xz" to virtio_net.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// errNoModule is wrapped by errors about modules that modules.dep does not list.
var errNoModule = errors.New("no such module")

// FindModule returns the file of a module, in a folder such as Kernel.ModuleDir.
func FindModule(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return "", err
	}
	_, byName, err := parseDep(string(text))
	if err != nil {
		return "", err
	}
	file, ok := byName[moduleName(name)]
	if !ok {
		return "", fmt.Errorf("%s lists no module %q: %w", filepath.Join(dir, "modules.dep"), name, errNoModule)
	}
	return filepath.Join(dir, file), nil
}

// ReadModule returns the object file of a module, uncompressed if necessary.
func ReadModule(file string) ([]byte, error) {
	object, err := readModule(file)
	if err == nil {
		// A truncated file lacks the section table at its end.
		if _, bad := elf.NewFile(bytes.NewReader(object)); bad != nil {
			err = fmt.Errorf("no ELF object, or a part of one: %w", bad)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the module %s: %w: remove its kernel's folder and run make kernels", file, err)
	}
	return object, nil
}

func readModule(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch {
	case strings.HasSuffix(file, ".ko"):
		return readBounded(f)
	case strings.HasSuffix(file, ".ko.xz"):
		return readXZ(f)
	}
	return nil, errors.New("want .ko or .ko.xz")
}

func readBounded(r io.Reader) ([]byte, error) {
	object, err := io.ReadAll(io.LimitReader(r, maxModule+1))
	if err == nil && len(object) > maxModule {
		err = fmt.Errorf("it holds more than %d MiB, which no module does", maxModule>>20)
	}
	return object, err
}

func readXZ(f *os.File) ([]byte, error) {
	xz := exec.Command("xz", "-dc")
	var complaint bytes.Buffer
	xz.Stdin, xz.Stderr = f, &complaint
	pipe, err := xz.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := xz.Start(); err != nil {
		return nil, fmt.Errorf("%w (run make setup)", err)
	}
	object, err := readBounded(pipe)
	if err != nil {
		pipe.Close() // ends xz
		xz.Wait()
		return nil, err
	}
	if err := xz.Wait(); err != nil {
		return nil, fmt.Errorf("unpacking: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return object, nil
}
