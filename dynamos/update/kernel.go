// SPDX-License-Identifier: MIT

package update

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RunningBuildID returns the build-id of the running kernel, in hex; sys is /sys.
func RunningBuildID(sys string) (string, error) {
	return noteBuildID(filepath.Join(sys, "kernel", "notes"))
}

// loadedBuildID returns the build-id of a loaded module, or "" if it is not loaded.
func loadedBuildID(sys, name string) (string, error) {
	dir := filepath.Join(sys, "module", name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return noteBuildID(filepath.Join(dir, "notes", ".note.gnu.build-id"))
}

const notesMax = 1 << 20

func noteBuildID(path string) (string, error) {
	text, err := readAtMax(path, notesMax)
	if err != nil {
		return "", err
	}
	if id := findBuildID(text); id != "" {
		return id, nil
	}
	return "", fmt.Errorf("%s holds no build-id", path)
}

// findBuildID finds the build-id in ELF notes.
func findBuildID(b []byte) string {
	const gnuBuildID = 3
	for len(b) >= 12 {
		name, desc := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		kind := binary.LittleEndian.Uint32(b[8:])
		b = b[12:]
		begin := (name + 3) &^ 3
		end := begin + (desc+3)&^3
		if end > uint64(len(b)) {
			return ""
		}
		if kind == gnuBuildID && string(b[:name]) == "GNU\x00" {
			return hex.EncodeToString(b[begin : begin+desc])
		}
		b = b[end:]
	}
	return ""
}

// runningVersion finds the version of Debian's package in the output of uname -v,
// for example "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-11-06)".
func runningVersion(text string) (string, error) {
	if _, rest, ok := strings.Cut(text, " Debian "); ok {
		if version, _, _ := strings.Cut(rest, " "); version != "" {
			return version, nil
		}
	}
	return "", &RefusedError{Why: "the running kernel is not of a package of Debian: name one with --kernel"}
}

// RunningVersion returns the version of the running kernel's package.
func RunningVersion() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/version")
	if err != nil {
		return "", err
	}
	return runningVersion(strings.TrimSpace(string(text)))
}

// A RefusedError is a refusal by the kernel, or by a check before it: a sentence with the remedy.
type RefusedError struct {
	Why   string
	Cause error // or nil
}

func (r *RefusedError) Error() string { return r.Why }

// Unwrap returns the cause, such as the compiler's messages.
func (r *RefusedError) Unwrap() error { return r.Cause }

func refusef(format string, args ...any) error {
	return &RefusedError{Why: fmt.Sprintf(format, args...)}
}
