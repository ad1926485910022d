// SPDX-License-Identifier: MIT

package main

import (
	"debug/pe"
	"fmt"
	"path/filepath"
	"strings"
)

// The list of what Windows 10 1809 documents: "DLL function" per line.
const windowsList = "tests/style/windows-imports.tbl"

// windowsPrograms holds what was built for Windows to documented imports, to
// sections that are never writable and executable, and to having resources
// (manifest and version).
func windowsPrograms(t *tree) ([]string, error) {
	programs, err := filepath.Glob(filepath.Join(t.root, "build/bin/*.exe"))
	if err != nil {
		return nil, err
	}
	if len(programs) == 0 {
		return nil, fmt.Errorf("%w: no program for Windows is built", errSkip)
	}
	known := t.windowsImports()
	var bad []string
	for _, path := range programs {
		more, err := windowsProgram(path, known)
		if err != nil {
			return bad, fmt.Errorf("%s: %w", path, err)
		}
		bad = append(bad, more...)
	}
	if len(bad) == 0 && known == nil {
		return nil, fmt.Errorf("%w: %s is not there, so imports are not known to be documented", errSkip, windowsList)
	}
	return bad, nil
}

func (t *tree) windowsImports() map[string]bool {
	if !t.exists(windowsList) {
		return nil
	}
	known := map[string]bool{}
	for _, line := range t.lines(windowsList) {
		if f := strings.Fields(line); len(f) >= 2 && f[0][0] != '#' {
			known[strings.ToLower(f[0])+" "+f[1]] = true
		}
	}
	return known
}

func windowsProgram(path string, known map[string]bool) ([]string, error) {
	file, err := pe.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	name := filepath.Base(path)
	var bad []string
	resources := false
	for _, s := range file.Sections {
		const both = pe.IMAGE_SCN_MEM_WRITE | pe.IMAGE_SCN_MEM_EXECUTE
		if s.Characteristics&both == both {
			bad = append(bad, fmt.Sprintf("%s: section %s is writable and executable", name, s.Name))
		}
		resources = resources || s.Name == ".rsrc"
	}
	if !resources {
		bad = append(bad, name+": no resources: manifest and version are missing")
	}
	imports, err := file.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	for _, symbol := range imports { // "function:dll"
		function, dll, _ := strings.Cut(symbol, ":")
		if known != nil && !known[strings.ToLower(dll)+" "+function] {
			bad = append(bad, fmt.Sprintf("%s: imports %s from %s, which %s does not list", name, function, dll, windowsList))
		}
	}
	return bad, nil
}
