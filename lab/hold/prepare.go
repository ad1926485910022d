// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/internal/lazy"
	"skep/internal/load"
	"skep/lab"
)

// preparePatient is how long a new guest may take to copy a few lines.
const preparePatient = 2 * time.Minute

// installModules makes our modules known to the guest's modprobe by its configuration. It
// does not run depmod, which would take half a minute in the guest.
func installModules(ctx context.Context, g Guest, text string) error {
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, load.Stretch(preparePatient))
	defer cancel()
	stream, err := g.Stream(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	script := "mkdir -p /etc/modprobe.d && cat > /etc/modprobe.d/skep.conf"
	var said lab.Limited
	status, err := lab.RunProgram(ctx, stream, lab.Program{Args: []string{"/bin/sh", "-c", script}},
		lab.Streams{In: strings.NewReader(text), Out: &said, Err: &said})
	if err == nil && status != 0 {
		err = fmt.Errorf("status %d: %.300q", status, string(said))
	}
	if err != nil {
		return fmt.Errorf("telling modprobe of our modules: %w", err)
	}
	return nil
}

// Only these names and paths are written to modprobe's configuration, which a shell reads.
var (
	plainPath = lazy.Regexp(`^/[A-Za-z0-9/._+-]+$`)
	plainName = lazy.Regexp(`^[A-Za-z0-9_-]+$`)
)

// modprobeConfig returns one line for each of our modules, which loads the modules that it
// needs first.
func modprobeConfig(build, kernel string) (string, error) {
	files, err := filepath.Glob(filepath.Join(build, "kmod", kernel, "*", "*.ko"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".ko")
		if !plainPath().MatchString(file) || !plainName().MatchString(name) {
			return "", fmt.Errorf("the module %s has a path that a configuration of modprobe can't contain: move the tree", file)
		}
		needs, err := moduleDeps(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "install %s ", name)
		if len(needs) > 0 {
			fmt.Fprintf(&out, "/sbin/modprobe -qa %s && ", strings.Join(needs, " "))
		}
		fmt.Fprintf(&out, "/sbin/insmod %s $CMDLINE_OPTS\n", file)
	}
	return out.String(), nil
}

// moduleDeps reads the names of the modules that a module needs from its .modinfo.
func moduleDeps(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s is not a kernel module: %w: remove it and run make kmod", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s is not a kernel module, it has no .modinfo: remove it and run make kmod", file)
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var names []string
	for _, entry := range strings.Split(string(data), "\x00") {
		list, found := strings.CutPrefix(entry, "depends=")
		for _, name := range strings.Split(list, ",") {
			if found && plainName().MatchString(name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// logTo redirects the holder's own errors to a file, away from the terminal of the client
// that ordered the machine.
func logTo(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return redirectStderr(f)
}
