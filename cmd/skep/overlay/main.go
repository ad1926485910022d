// SPDX-License-Identifier: MIT

// Overlay writes an overlay for `go build`. With it a Windows program written in Go starts
// without bcryptprimitives.dll. Wine before 8.18 lacks this library, and without it Go's
// runtime ends before main. If it is missing, the two files of Go that use it get random
// numbers from advapi32.dll, which exists since Windows XP. Otherwise nothing changes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A change replaces text of one of Go's files.
type change struct{ file, old, new string }

var changes = []change{
	{"src/runtime/os_windows.go",
		`	if bcryptPrimitives == 0 {
		throw("bcryptprimitives.dll not found")
	}
	_ProcessPrng = windowsFindfunc(bcryptPrimitives, []byte("ProcessPrng\000"))
`,
		`	if bcryptPrimitives != 0 {
		_ProcessPrng = windowsFindfunc(bcryptPrimitives, []byte("ProcessPrng\000"))
	} else {
		advapi32 := [...]uint16{'a', 'd', 'v', 'a', 'p', 'i', '3', '2', '.', 'd', 'l', 'l', 0}
		_ProcessPrng = windowsFindfunc(windowsLoadSystemLib(advapi32[:]), []byte("SystemFunction036\000"))
		if _ProcessPrng == nil {
			throw("neither bcryptprimitives.dll nor advapi32.dll gives random numbers")
		}
	}
`},
	{"src/internal/syscall/windows/zsyscall_windows.go",
		`	r1, _, e1 := syscall.SyscallN(procProcessPrng.Addr(), uintptr(unsafe.Pointer(_p0)), uintptr(len(buf)))
	if r1 == 0 {
`,
		`	random := procProcessPrng
	if modbcryptprimitives.Load() != nil {
		random = modadvapi32.NewProc("SystemFunction036")
	}
	r1, _, e1 := syscall.SyscallN(random.Addr(), uintptr(unsafe.Pointer(_p0)), uintptr(len(buf)))
	if r1&0xff == 0 { // a BOOLEAN has one byte
`},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: overlay FOLDER")
		os.Exit(2)
	}
	if err := writeOverlay(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

func writeOverlay(dir string) error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, c := range changes {
		file := filepath.Join(strings.TrimSpace(string(out)), c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Count(string(text), c.old) != 1 {
			fmt.Fprintf(os.Stderr, "overlay: %s is of another version of Go: under Wine before 8.18 skep.exe will need bcryptprimitives.dll\n", file)
			replace = map[string]string{}
			break
		}
		mine := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(mine, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
			return err
		}
		replace[file] = mine
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), append(text, '\n'), 0o644)
}
