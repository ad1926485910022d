// SPDX-License-Identifier: MIT

package uapi

import (
	"reflect"
	"strings"
	"testing"
)

// classSample has the method add in two classes, of which only the first has state.
func classSample() *Manifest {
	return &Manifest{Name: "class", Code: []byte{}, Functions: []Function{
		{Name: "add", Of: 4},
		{Name: "add", Of: 5},
		{Name: "get", Of: 5, Ranks: true, Params: []Param{{Name: "ranks", Type: Int, Mode: ModeIn}}},
		{Name: "sum", Class: true, State: true},
		{Name: "add", Class: true},
	}}
}

func TestClassesOfAManifest(t *testing.T) {
	m := classSample()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseManifest(b)
	if err != nil || !reflect.DeepEqual(back.Functions, m.Functions) {
		t.Fatalf("%v: %+v", err, back)
	}
	if back.Lookup("add") != 1 || back.Lookup("sum") != -1 {
		t.Errorf("add is function %d, sum %d", back.Lookup("add"), back.Lookup("sum"))
	}
	if back.StateOf(0) != &back.Functions[3] || back.StateOf(1) != nil || back.StateOf(3) != nil {
		t.Error("not the methods of the first class alone have state")
	}
}

func TestHostileClasses(t *testing.T) {
	for name, change := range map[string]func(f []Function){
		"a method of no class":         func(f []Function) { f[0].Of = 3 },
		"of one outside the table":     func(f []Function) { f[0].Of = 6 },
		"a method Initialize":          func(f []Function) { f[0].Init = true },
		"a method of the master":       func(f []Function) { f[0].Callback = true },
		"an MPI job's with state":      func(f []Function) { f[2].Of = 4 },
		"state without a class":        func(f []Function) { f[3].Class = false },
		"a class of a class":           func(f []Function) { f[3].Of = 5 },
		"a class that is Initialize":   func(f []Function) { f[3].Init = true },
		"a class of ranks":             func(f []Function) { f[4].Ranks = true },
		"a class of the master":        func(f []Function) { f[4].Callback = true },
		"a class with parameters":      func(f []Function) { f[4].Params = []Param{{Name: "n", Type: Int, Mode: ModeIn}} },
		"two methods of one name":      func(f []Function) { f[2] = f[0] },
		"two functions of one name":    func(f []Function) { f[2].Name = "add" },
		"two classes of one name":      func(f []Function) { f[4].Name = "sum" },
		"a method of a class's method": func(f []Function) { f[0].Of = 1 },
	} {
		m := classSample()
		change(m.Functions)
		_, err := m.Encode()
		if err == nil || !strings.Contains(err.Error(), "class") && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "ranks") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
