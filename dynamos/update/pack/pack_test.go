// SPDX-License-Identifier: MIT

package pack

import (
	"archive/tar"
	"bytes"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const kernelA = "0123456789abcdef0123456789abcdef01234567"

func examplePackage() *Package {
	return &Package{
		Manifest: Manifest{
			Revision: Revision,
			Name:     "arp_ioctl", Class: Any, Proposed: Any,
			Files: []string{"net/ipv4/arp.c"},
			Kernels: []Kernel{{
				BuildID: kernelA, Release: "6.1.0-50-amd64", Version: "6.1.176-1",
				Functions: []Function{{
					Symbol: Symbol{Name: "arp_ioctl"}, File: "net/ipv4/arp.c",
					Type: "int arp_ioctl(struct net *, unsigned int, void *)",
					Args: 3, Result: Int, OldSize: 100, Size: 120,
					Original: strings.Repeat("0", 64),
				}},
				Imports: []Symbol{{Name: "arp_req_set", Position: 1}},
			}},
		},
		Patch:   []byte("--- a\n+++ b\n"),
		Modules: map[string][]byte{kernelA: []byte("\x7fELF and more")},
	}
}

func bytesOf(t testing.TB, p *Package) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPackageRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x"+Suffix)
	want := examplePackage()
	if err := WriteFile(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	got.text = nil
	want.Kernels[0].File = kernelA + ".ko"
	want.Kernels[0].SHA256 = digestOf(want.Modules[kernelA])
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !bytes.Equal(bytesOf(t, want), bytesOf(t, got)) {
		t.Error("the same package was written as other bytes")
	}
}

func TestImpossibleManifestIsRefused(t *testing.T) {
	seven, minus := 7, -1
	for name, spoil := range map[string]func(*Manifest){
		"an unknown revision":                           func(m *Manifest) { m.Revision++ },
		"a slash in the update's name":                  func(m *Manifest) { m.Name = "../x" },
		"an update's name of 56 bytes":                  func(m *Manifest) { m.Name = strings.Repeat("x", 56) },
		"an unknown class":                              func(m *Manifest) { m.Class = "some" },
		"another class than proposed, without a reason": func(m *Manifest) { m.Proposed = Together },
		"an escape sequence in a file's name":           func(m *Manifest) { m.Files = []string{"a\x1b[2J"} },
		"no kernel":                                     func(m *Manifest) { m.Kernels = nil },
		"a kernel twice":                                func(m *Manifest) { m.Kernels = append(m.Kernels, m.Kernels[0]) },
		"a build-id that is none":                       func(m *Manifest) { m.Kernels[0].BuildID = "x" },
		"a module's name that leaves the package":       func(m *Manifest) { m.Kernels[0].File = "../x.ko" },
		"no functions":                                  func(m *Manifest) { m.Kernels[0].Functions = nil },
		"a function twice": func(m *Manifest) {
			m.Kernels[0].Functions = append(m.Kernels[0].Functions, m.Kernels[0].Functions[0])
		},
		"a comma in a symbol's name":                             func(m *Manifest) { m.Kernels[0].Functions[0].Name = "a,b" },
		"seven arguments":                                        func(m *Manifest) { m.Kernels[0].Functions[0].Args = 7 },
		"an unknown type of result":                              func(m *Manifest) { m.Kernels[0].Functions[0].Result = "u8" },
		"a function of 0 bytes":                                  func(m *Manifest) { m.Kernels[0].Functions[0].OldSize = 0 },
		"an unchanged function in class any":                     func(m *Manifest) { m.addUnchanged() },
		"only unchanged functions":                               func(m *Manifest) { m.setObjectArg(new(int)); m.Kernels[0].Functions = nil; m.addUnchanged() },
		"an object argument in class any":                        func(m *Manifest) { m.Kernels[0].Functions[0].Object = new(int) },
		"an object argument behind the last":                     func(m *Manifest) { m.setObjectArg(&seven) },
		"an object argument below 0":                             func(m *Manifest) { m.setObjectArg(&minus) },
		"the end of an object's life without an object argument": func(m *Manifest) { m.setObjectArg(nil); m.Kernels[0].Functions[0].Ends = true },
		"a changed layout with an empty reason":                  func(m *Manifest) { m.Kernels[0].Layouts = []Layout{{Name: "struct x", Was: 1, Is: 2, Because: " "}} },
		"what objects lack, without a reason":                    func(m *Manifest) { m.Kernels[0].Relies, m.State = []string{"f relies on x"}, " " },
		"a line feed in the reason for what objects lack":        func(m *Manifest) { m.Kernels[0].Relies, m.State = []string{"f relies on x"}, "a\nb" },
		"a line feed in what objects lack":                       func(m *Manifest) { m.Kernels[0].Relies, m.State = []string{"f\n"}, "it is safe" },
		"a line feed in a structure's name":                      func(m *Manifest) { m.Kernels[0].Layouts = []Layout{{Name: "x\n", Because: "y"}} },
		"an escape character in a text":                          func(m *Manifest) { m.Kernels[0].Idle = []string{"\x1b"} },
		"a symbol position below 0":                              func(m *Manifest) { m.Kernels[0].Imports[0].Position = -1 },
	} {
		p := examplePackage()
		p.Kernels[0].File, p.Kernels[0].SHA256 = kernelA+".ko", strings.Repeat("0", 64)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(&p.Manifest)
		if p.Check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Kernels and functions are counted from 1, as people count them.
func TestRefusalNamesKernelAndFunction(t *testing.T) {
	p := examplePackage()
	p.Kernels[0].File, p.Kernels[0].SHA256 = kernelA+".ko", strings.Repeat("0", 64)
	p.Kernels[0].Functions[0].Args = 7
	if err := p.Check(); err == nil || !strings.HasPrefix(err.Error(), "kernel 1 of its manifest: function 1: ") {
		t.Errorf("%v", err)
	}
}

// addUnchanged adds a function that stays as it is.
func (m *Manifest) addUnchanged() {
	f := examplePackage().Kernels[0].Functions[0]
	f.Name, f.Size = "arp_close", 0
	m.Kernels[0].Functions = append(m.Kernels[0].Functions, f)
}

func TestFunctionMayStayAsItIs(t *testing.T) {
	p := examplePackage()
	p.Kernels[0].File, p.Kernels[0].SHA256 = kernelA+".ko", strings.Repeat("0", 64)
	p.setObjectArg(new(int))
	p.addUnchanged()
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

func (m *Manifest) setObjectArg(arg *int) {
	m.Class, m.Proposed = Object, Object
	m.Kernels[0].Functions[0].Object = arg
}

func TestPackageThatWasChangedIsRefused(t *testing.T) {
	text := bytesOf(t, examplePackage())
	at := bytes.Index(text, []byte("\x7fELF"))
	changed := bytes.Clone(text)
	changed[at+5]++
	for name, text := range map[string][]byte{
		"a byte of a module is changed":       changed,
		"the archive is truncated":            text[:at],
		"no archive":                          []byte("hello"),
		"an empty file":                       nil,
		"the patch comes before the manifest": archiveFiles(t, patchName, "x", manifestName, "{}"),
		"another file follows":                append(bytes.Clone(text[:at+512]), archiveFiles(t, "x", "y")...),
	} {
		if _, err := Read(bytes.NewReader(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func archiveFiles(t *testing.T, list ...string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(list); i += 2 {
		if err := add(w, list[i], []byte(list[i+1]), MaxPatch); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzRead(f *testing.F) {
	f.Add(bytesOf(f, examplePackage()))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(bytesOf(t, p)))
		if err != nil || !reflect.DeepEqual(p.Kernels, again.Kernels) {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
