// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"skep/grid/proto"
	lent "skep/shimos/part"
)

// A loadedModule is a line of /proc/modules.
type loadedModule struct {
	refs  int
	users []string
}

// readModules reads /proc/modules, which every user may.
func readModules(proc string) map[string]loadedModule {
	text, err := os.ReadFile(filepath.Join(proc, "modules"))
	if err != nil {
		return nil
	}
	m := map[string]loadedModule{}
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		if len(w) < 4 {
			continue
		}
		refs, err := strconv.Atoi(w[2])
		if err != nil {
			continue
		}
		users := strings.FieldsFunc(w[3], func(c rune) bool { return c == ',' || c == '-' })
		m[w[0]] = loadedModule{refs, users}
	}
	return m
}

// kernelFacts returns what Skep changes in this machine's kernel. An update that is applied
// pins its module, so its module has a reference. partitions is nil without lent cores.
func kernelFacts(proc string, partitions func() ([]lent.Info, error)) (k proto.Kernel) {
	m := readModules(proc)
	for _, name := range m["dynamos"].users {
		if m[name].refs > 0 {
			k.Updates = append(k.Updates, name)
		}
	}
	slices.Sort(k.Updates)
	_, k.O2G = m["o2g"]
	if _, lends := m["shimos"]; lends {
		list, err := partitions()
		for _, p := range list {
			k.Lent = append(k.Lent, p.CPUs)
		}
		if err != nil {
			k.Lent = []string{"unknown"}
		}
	}
	return k
}
