// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// Load loads the module of an update, which changes no function yet. A module of that
// update that was reverted is unloaded first: it may be another build, or hold addresses of
// a module that is gone. If it must stay and is the same, fresh is false.
func Load(s Source, name string, module []byte) (fresh bool, err error) {
	loaded, err := loadedBuildID("/sys", name)
	if err != nil {
		return false, err
	}
	if loaded != "" {
		i, known, err := lookFor(s, name)
		if err != nil {
			return false, err
		}
		unload, err := makeRoom(name, known, &i, loaded == moduleBuildID(module))
		if err != nil || !unload {
			return false, err
		}
		if err := Remove(s, name); err != nil {
			return false, err
		}
	}
	log, err := openLog()
	if err != nil {
		return false, err
	}
	defer log.close()
	// From memory, so that the checked bytes are the loaded bytes.
	e := unix.InitModule(module, "")
	if e == nil {
		return true, nil
	}
	return false, loadError(name, e, log.lastLine(name), ReadLockdown("/"))
}

// makeRoom says whether a loaded module is unloaded before its update is loaded. known is
// whether it is the update i, and same whether it is the very module to be loaded.
func makeRoom(name string, known bool, i *uapi.DynamosInfo, same bool) (unload bool, err error) {
	switch {
	case !known:
		return false, refusef("a module %s is loaded that is no update: give the package another name ('skep update build --name')", name)
	case i.State == uapi.DynamosLoaded && i.Held != uapi.DynamosIsHeld:
		return true, nil
	case same:
		return false, nil
	case i.Held == uapi.DynamosIsHeld && i.State == uapi.DynamosLoaded:
		return false, refusef("another build of %s is held, and stays loaded until the next boot: give the package another name ('skep update build --name')", name)
	}
	return false, refusef("another build of %s is %s: 'skep update revert %s' takes it back", name, i.State, name)
}

// loadError is the error of init_module(2); said is what the kernel logged about the module.
func loadError(name string, e error, said string, l Lockdown) error {
	switch {
	case said != "":
		return refusef("the kernel did not load %s: %s", name, said)
	case l.Signed() && (errors.Is(e, unix.EPERM) || errors.Is(e, unix.EKEYREJECTED)):
		return refusef("%v, and does not trust the key that signed the module of %s: import its certificate with mokutil --import, and reboot", l, name)
	case errors.Is(e, unix.EPERM):
		return refusef("the kernel lets nobody load modules here, or you are not root (CAP_SYS_MODULE)")
	case errors.Is(e, unix.EKEYREJECTED):
		return refusef("this kernel loads only signed modules: sign %s with a key that it trusts", name)
	}
	return fmt.Errorf("the kernel did not load %s: %w", name, e)
}

// IsLoaded reports whether this module is the one that is loaded under a name.
func IsLoaded(name string, module []byte) (bool, error) {
	loaded, err := loadedBuildID("/sys", name)
	return loaded != "" && loaded == moduleBuildID(module), err
}

// Remove unloads the module of an update. It refuses an applied update, and one that
// the kernel may have pointers into.
func Remove(s Source, name string) error {
	i, err := findInfo(s, name)
	if err != nil {
		return err
	}
	if i.Held == uapi.DynamosIsHeld {
		return refusef("%s is held, and stays loaded until the next boot: %s; it can be reverted and applied, and never removed",
			name, uapi.Text(i.WhyHeld[:]))
	}
	return removeError(name, unix.DeleteModule(name, unix.O_NONBLOCK))
}

// removeError is the error of delete_module(2).
func removeError(name string, e error) error {
	switch {
	case errors.Is(e, unix.ENOENT):
		return refusef("%s is not loaded", name)
	case errors.Is(e, unix.EAGAIN), errors.Is(e, unix.EBUSY):
		return refusef("%s is in use: 'skep update revert %s' first", name, name)
	case errors.Is(e, unix.EPERM):
		return refusef("updates of the kernel are for root only (CAP_SYS_MODULE)")
	}
	return e
}

// moduleBuildID returns the build-id of a module's file, or "" if it has none.
func moduleBuildID(module []byte) string {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return ""
	}
	s := f.Section(".note.gnu.build-id")
	if s == nil || s.Size > notesMax {
		return ""
	}
	text, err := s.Data()
	if err != nil {
		return ""
	}
	return findBuildID(text)
}

// kernelLog reads the lines that the kernel writes after it was opened.
type kernelLog struct{ fd int }

func openLog() (*kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("/dev/kmsg: %w", err)
	}
	return &kernelLog{fd}, nil
}

func (l *kernelLog) close() { unix.Close(l.fd) }

const logLines = 1000

// lastLine returns the kernel's last message about a module, without its name.
func (l *kernelLog) lastLine(name string) (said string) {
	ours := regexp.MustCompile(`^(?:dynamos: )?(?:` + regexp.QuoteMeta(name) + `|dynamos|livepatch)[:,] (.*)`)
	buf := make([]byte, 8192)
	for range logLines {
		n, err := unix.Read(l.fd, buf)
		if errors.Is(err, unix.EPIPE) {
			continue
		}
		if err != nil || n <= 0 {
			return said
		}
		_, text, _ := strings.Cut(string(buf[:n]), ";")
		text, _, _ = strings.Cut(text, "\n")
		if m := ours.FindStringSubmatch(text); m != nil {
			said = m[1]
		}
	}
	return said
}
