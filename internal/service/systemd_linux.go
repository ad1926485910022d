// SPDX-License-Identifier: MIT

package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"skep/internal/atomicfile"
	"skep/internal/lazy"
)

// mark is the first line of each file that this package writes. It replaces and removes no
// file without it.
const mark = "# Written by 'skep service install'; 'skep service uninstall' removes it.\n"

// A Systemd writes and removes units, of the system or of this user. Out gets a
// line for each file that was changed.
type Systemd struct {
	Root string // install below this folder and start no service; empty: this system
	User bool
	Out  io.Writer
}

// A Unit is a service: the unit file as in packages, and a drop-in for this machine.
type Unit struct {
	Name   string // with .service
	Text   []byte
	Dropin string // empty: none
	Target string // the target that wants it
}

// units returns the folder of an administrator's units.
func (s *Systemd) units() (string, error) {
	if !s.User {
		return filepath.Join("/", s.Root, "etc/systemd/system"), nil
	}
	config, err := os.UserConfigDir()
	return filepath.Join(config, "systemd/user"), err
}

// Packaged returns the path of a unit that a package installed, or an empty string.
func (s *Systemd) Packaged(name string) string {
	kind := "system"
	if s.User {
		kind = "user"
	}
	for _, dir := range []string{"usr/local/lib/systemd", "usr/lib/systemd", "lib/systemd"} {
		path := filepath.Join("/", s.Root, dir, kind, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// Install writes a unit, its drop-in and the link of its target. changed reports whether a
// file has changed.
func (s *Systemd) Install(u Unit) (changed bool, err error) {
	dir, err := s.units()
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, u.Name)
	unit := s.Packaged(u.Name)
	if unit == "" {
		unit = path
		if changed, err = s.WriteFile(path, string(u.Text)); err != nil {
			return changed, err
		}
	} else if changed, err = s.RemoveFile(path); err != nil {
		return changed, err
	}
	dropin := filepath.Join(dir, u.Name+".d", "skep.conf")
	var more bool
	if u.Dropin != "" {
		more, err = s.WriteFile(dropin, u.Dropin)
	} else {
		more, err = s.RemoveFile(dropin)
	}
	if err != nil || s.Root == "" {
		return changed || more, err
	}
	linked, err := s.link(strings.TrimPrefix(unit, filepath.Clean(s.Root)), filepath.Join(dir, u.Target+".wants", u.Name))
	return changed || more || linked, err
}

// link enables a unit like `systemctl enable`, on a system that is not running. It replaces a
// link to another file, such as the unit of before the package.
func (s *Systemd) link(unit, wants string) (changed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(wants), 0o755); err != nil {
		return false, err
	}
	old, err := os.Readlink(wants)
	if err == nil && old == unit {
		return false, nil
	}
	if err == nil {
		err = os.Remove(wants)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Symlink(unit, wants)
	}
	if err != nil {
		return false, err
	}
	fmt.Fprintf(s.Out, "wrote %s\n", wants)
	return true, nil
}

// Uninstall removes what Install wrote.
func (s *Systemd) Uninstall(u Unit) (changed bool, err error) {
	dir, err := s.units()
	if err != nil {
		return false, err
	}
	wants := filepath.Join(dir, u.Target+".wants", u.Name)
	if s.Root != "" && os.Remove(wants) == nil {
		fmt.Fprintf(s.Out, "removed %s\n", wants)
		changed = true
	}
	for _, path := range []string{filepath.Join(dir, u.Name+".d", "skep.conf"), filepath.Join(dir, u.Name)} {
		gone, err := s.RemoveFile(path)
		changed = changed || gone
		if err != nil {
			return changed, err
		}
	}
	os.Remove(filepath.Join(dir, u.Name+".d"))       // fails, and the folder stays, if it
	os.Remove(filepath.Join(dir, u.Target+".wants")) // has a file of an administrator
	return changed, nil
}

// Installed reports whether there is a unit, ours or a package's.
func (s *Systemd) Installed(name string) bool {
	dir, err := s.units()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, name))
	return err == nil || s.Packaged(name) != ""
}

// WriteFile writes a file, with mark as its first line, unless it is the same already. It
// refuses to replace a file without mark.
func (s *Systemd) WriteFile(path, text string) (changed bool, err error) {
	text = mark + text
	old, err := os.ReadFile(path)
	switch {
	case err == nil && string(old) == text:
		return false, nil
	case err == nil && !bytes.HasPrefix(old, []byte(mark)):
		return false, fmt.Errorf("%s was not written by skep: move it away, or put your changes into a drop-in (systemctl edit)", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	if err := atomicfile.Write(path, []byte(text), 0o644); err != nil {
		return false, err
	}
	if err := os.Chmod(path, 0o644); err != nil { // independent of the umask
		return true, err
	}
	fmt.Fprintf(s.Out, "wrote %s\n", path)
	return true, nil
}

// RemoveFile removes a file that begins with mark.
func (s *Systemd) RemoveFile(path string) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !bytes.HasPrefix(old, []byte(mark)) {
		return false, fmt.Errorf("%s was not written by skep, and stays", path)
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	fmt.Fprintf(s.Out, "removed %s\n", path)
	return true, nil
}

// Control runs systemctl and returns its output.
func (s *Systemd) Control(args ...string) (string, error) {
	if s.User {
		args = append([]string{"--user"}, args...)
	}
	var out, complaints bytes.Buffer
	cmd := exec.Command("systemctl", append([]string{"--no-pager", "--no-ask-password"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var status *exec.ExitError
	if errors.As(err, &status) {
		said := strings.TrimSpace(complaints.String())
		if said == "" {
			said = strings.TrimSpace(out.String())
		}
		err = fmt.Errorf("systemctl %s: %s", strings.Join(args, " "), strings.Join(strings.Fields(said), " "))
	}
	return strings.TrimSpace(out.String()), err
}

// Properties returns properties of a unit from systemd.
func (s *Systemd) Properties(unit string, names ...string) (map[string]string, error) {
	out, err := s.Control("show", unit, "--property", strings.Join(names, ","))
	list := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		list[name] = value
	}
	return list, err
}

// Version returns the version of systemd.
func (s *Systemd) Version() int {
	out, err := exec.Command("systemctl", "--version").Output()
	if err != nil {
		return 0
	}
	return versionIn(string(out))
}

var versionLine = lazy.Regexp(`^systemd (\d+)`)

func versionIn(text string) int {
	m := versionLine().FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// Runs reports whether systemd is this system's init, like sd_booted(3).
func Runs() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// InitName returns the name of the program that runs as process 1.
func InitName() string {
	name, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		return "unknown"
	}
	return oneLine(strings.TrimSpace(string(name)))
}
