// SPDX-License-Identifier: MIT

package main

import (
	"debug/pe"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
)

// windowsList is the list of functions that are documented for Windows 10 1809: "DLL function"
// per line.
const windowsList = "tests/style/windows-imports.tbl"

// windowsPrograms checks the programs for Windows: imports must be documented, no section may
// be writable and executable, and there must be a manifest and version data.
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

// Types of resources, from the PE format's description.
const (
	resourceVersion  = 16
	resourceManifest = 24
)

// resourceTypes reads the root of the resource tree: 16 bytes, of which the
// last four count entries by name and by number, then 8 bytes per entry.
func resourceTypes(s *pe.Section) map[uint32]bool {
	types := map[uint32]bool{}
	data, err := s.Data()
	if err != nil || len(data) < 16 {
		return types
	}
	named := int(binary.LittleEndian.Uint16(data[12:]))
	numbered := int(binary.LittleEndian.Uint16(data[14:]))
	for i := named; i < named+numbered; i++ {
		at := 16 + 8*i
		if at+8 > len(data) {
			break
		}
		types[binary.LittleEndian.Uint32(data[at:])] = true
	}
	return types
}

func windowsProgram(path string, known map[string]bool) ([]string, error) {
	file, err := pe.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	name := filepath.Base(path)
	var bad []string
	var resources map[uint32]bool
	for _, s := range file.Sections {
		const both = pe.IMAGE_SCN_MEM_WRITE | pe.IMAGE_SCN_MEM_EXECUTE
		if s.Characteristics&both == both {
			bad = append(bad, fmt.Sprintf("%s: section %s is writable and executable", name, s.Name))
		}
		if s.Name == ".rsrc" {
			resources = resourceTypes(s)
		}
	}
	if !resources[resourceManifest] {
		bad = append(bad, name+": no manifest")
	}
	if !resources[resourceVersion] {
		bad = append(bad, name+": no version data")
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
