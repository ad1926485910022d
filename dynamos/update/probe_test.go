// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// A fakeProber takes probes, and counted one call more for each than for the one before.
type fakeProber struct {
	set   []uapi.DynamosProbe
	fails error
}

func (f *fakeProber) SetProbe(p *uapi.DynamosProbe) error {
	f.set = append(f.set, *p)
	return f.fails
}

func (f *fakeProber) CountProbe(function uint32) (c uapi.DynamosCount, err error) {
	if int(function) >= len(f.set) {
		return c, ErrNoMore
	}
	c.Symbol, c.In, c.Out, c.Sampled = f.set[function].Symbol, uint64(function)+3, 1, 1
	c.Latency[10] = 1
	return c, f.fails
}

func testPrototype(name string) (image.Prototype, error) {
	switch name {
	case "wide":
		return image.Prototype{Uncounted: "takes more arguments than the six in registers"}, nil
	case "unknown":
		return image.Prototype{}, errors.New("the kernel's types (BTF) do not know unknown")
	}
	return image.Prototype{Text: "int " + name + "(void)", Result: pack.Int}, nil
}

func TestProbes(t *testing.T) {
	f := &fakeProber{}
	p, err := setProbes(f, testPrototype, []string{"vfs_read", "step,3"}, true)
	if err != nil || len(f.set) != 2 {
		t.Fatal(f.set, err)
	}
	a := &f.set[1]
	if uapi.Text(a.Symbol[:]) != "step" || a.Sympos != 3 || a.Result != 1 || a.Flags != uapi.DynamosProbeEach || f.set[0].Sympos != 0 {
		t.Errorf("%+v", a)
	}
	if got := p.Types(); !slices.Equal(got, []string{"int vfs_read(void)", "int step(void)"}) {
		t.Errorf("the types are %q", got)
	}
	list, err := p.Read()
	if err != nil || len(list) != 2 || list[1].Symbol != "step" || list[1].Type != "int step(void)" || list[1].Calls != 4 || list[1].Inside != 3 || list[1].Latency[10] != 1 || list[1].P50 == 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if f.fails = errFault; true {
		if _, err := p.Read(); !errors.Is(err, errFault) {
			t.Error(err)
		}
	}
	f = &fakeProber{}
	if _, err := setProbes(f, testPrototype, []string{"vfs_read"}, false); err != nil || f.set[0].Flags != 0 {
		t.Errorf("one call in 64: %+v, %v", f.set, err)
	}
}

// fakeTypes have one type for each name, and as many for "even" as there are functions.
type fakeTypes struct{}

func (fakeTypes) Of(name string) (image.Prototype, error) { return testPrototype(name) }
func (fakeTypes) Count(name string) int                   { return map[string]int{"even": 2}[name] + 1 }

// Of several functions of a name only those are probed that all have a type.
func TestProbesOfNamesThatAreThereTwice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kallsyms")
	text := "0 T alone\n0 t twice\n0 W twice\n0 d twice\n0 t even\n0 t even\n0 t even\n0 t alone\t[module]\n0 D alone\n0 t twice_more\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	functions, err := countFunctions(file, []string{"alone", "twice,2", "even", "none"})
	if want := map[string]int{"alone": 1, "twice": 2, "even": 3, "none": 0}; err != nil || !maps.Equal(functions, want) {
		t.Fatalf("%v, %v", functions, err)
	}
	kernel := typeOfOne(fakeTypes{}, functions)
	if _, err := setProbes(&fakeProber{}, kernel, []string{"alone", "even,3", "none"}, false); err != nil {
		t.Error(err)
	}
	f := &fakeProber{}
	_, err = setProbes(f, kernel, []string{"twice,2"}, false)
	if want := "twice cannot be probed: the kernel has 2 functions of that name"; err == nil || !strings.HasPrefix(err.Error(), want) || len(f.set) != 0 {
		t.Errorf("%v, %v", err, f.set)
	}
	if _, err := countFunctions(file+".none", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without kallsyms: %v", err)
	}
}

func TestProbesThatAreRefused(t *testing.T) {
	var many []string
	for n := range uapi.DynamosProbes + 1 {
		many = append(many, fmt.Sprintf("f%d", n))
	}
	for want, names := range map[string][]string{
		"wide cannot be probed: it takes more arguments than the six in registers: probe its callers": {"wide"},
		"unknown cannot be probed: the kernel's types (BTF) do not know":                              {"unknown"},
		"f is named twice":                       {"f", "f"},
		`"f,0" is not a function: write NAME,`:   {"f,0"},
		`"f,x" is not a function: write NAME,`:   {"f,x"},
		`"f,-1" is not a function: write NAME,`:  {"f,-1"},
		`"f g" is not the name of a function`:    {"f g"},
		`"" is not the name of a function`:       {""},
		"33 functions are too many: one command": many,
	} {
		f := &fakeProber{}
		if _, err := setProbes(f, testPrototype, names, false); !isRefused(err, want) {
			t.Errorf("%q: %v", names, err)
		}
		if len(f.set) > 0 && names[0] != "f" {
			t.Errorf("%q reached the kernel", names)
		}
	}
	if _, err := setProbes(&fakeProber{fails: errFault}, testPrototype, []string{"f"}, false); !errors.Is(err, errFault) {
		t.Errorf("a kernel that refuses: %v", err)
	}
}
