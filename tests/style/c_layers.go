// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"path"
	"strings"
)

const cLayersTable = "tests/style/c-layers.tbl"

// cLayering reads the table of the layers of files and stems in each folder.
func (t *tree) cLayering() (map[string]map[string]int, error) {
	folders := map[string]map[string]int{}
	for i, line := range t.lines(cLayersTable) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		if len(f) < 2 {
			return nil, fmt.Errorf("%s:%d: want FOLDER NAMES", cLayersTable, i+1)
		}
		if folders[f[0]] == nil {
			folders[f[0]] = map[string]int{}
		}
		for _, name := range f[1:] {
			if _, twice := folders[f[0]][name]; twice {
				return nil, fmt.Errorf("%s:%d: %s stands here twice", cLayersTable, i+1, name)
			}
			folders[f[0]][name] = i + 1
		}
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s is missing or empty", cLayersTable)
	}
	return folders, nil
}

// fileLayer returns the line that covers a file: by its name, else by its stem.
func fileLayer(layers map[string]int, name string) int {
	base := path.Base(name)
	if n, ok := layers[base]; ok {
		return n
	}
	return layers[strings.TrimSuffix(base, path.Ext(base))]
}

// cLayers checks that includes within a folder follow the order of its layers.
func cLayers(t *tree) ([]string, error) {
	folders, err := t.cLayering()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range t.filesWith(".c", ".h") {
		layers := folders[path.Dir(name)]
		if layers == nil {
			continue
		}
		own := fileLayer(layers, name)
		if own == 0 {
			bad = append(bad, name+": no line in "+cLayersTable+" covers it")
			continue
		}
		for i, line := range t.lines(name) {
			m := includeLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			target := t.resolveInclude(name, m[1], m[2])
			if path.Dir(target) != path.Dir(name) || target == strings.TrimSuffix(name, ".c")+".h" {
				continue
			}
			if fileLayer(layers, target) <= own {
				bad = append(bad, fmt.Sprintf("%s:%d: includes %s, which stands in no lower layer", name, i+1, target))
			}
		}
	}
	return bad, nil
}
