// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// relyingPackage returns a package of "fix" that relies on what objects lack, in a module or
// in the kernel's image ("").
func relyingPackage(module string) *pack.Package {
	p := fixPackage()
	k := &p.Kernels[0]
	p.State, k.Relies = "the old state is never used", []string{"work relies on struct dev.lock, which probe sets up"}
	if module != "" {
		p.Class, p.Proposed = pack.Together, pack.Together
		k.Module, k.ModuleID = module, strings.Repeat("a", 40)
		f := &k.Functions[0]
		f.Module, f.Uncounted, f.Args = module, true, 0
		k.Imports = nil
	}
	return p
}

// Objects of a module exist while it is loaded, those of the kernel's image always.
func TestObjectsThatExist(t *testing.T) {
	with := func(names ...string) func(string) (bool, error) {
		return func(name string) (bool, error) { return slices.Contains(names, name), nil }
	}
	for what, test := range map[string]struct {
		p      *pack.Package
		has    func(string) (bool, error)
		reason string
		want   string // in the refusal; empty: none
	}{
		"of the kernel":                       {relyingPackage(""), with(), "", "the kernel may have such objects (work relies on struct dev.lock"},
		"of the kernel, with a reason":        {relyingPackage(""), with(), "none is used", ""},
		"of a loaded module":                  {relyingPackage("usb"), with("usb"), "", "older code of the module usb set up (work relies on struct dev.lock"},
		"of a loaded module, with a reason":   {relyingPackage("usb"), with("usb"), "none is bound", ""},
		"of a module that is not loaded":      {relyingPackage("usb"), with("usb2"), "", ""},
		"an update that relies on nothing":    {fixPackage(), with("usb"), "", ""},
		"a reason where nothing is relied on": {fixPackage(), with(), "none is used", "leave --objects-exist out"},
	} {
		err := CheckObjects(test.has, "fix", &test.p.Kernels[0], test.reason)
		if test.want == "" && err != nil || test.want != "" && !isRefused(err, test.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	fails := func(string) (bool, error) { return false, errFault }
	if err := CheckObjects(fails, "fix", &relyingPackage("usb").Kernels[0], ""); !errors.Is(err, errFault) {
		t.Errorf("a question that fails: %v", err)
	}
}

// A module has a state only if it is one: what is built in has a folder too.
func TestModuleThatIsLoaded(t *testing.T) {
	sys := t.TempDir()
	for _, name := range []string{"loaded", "builtin"} {
		if err := os.MkdirAll(filepath.Join(sys, "module", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(sys, "module/loaded/initstate"), []byte("live\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"loaded": true, "builtin": false, "absent": false} {
		if got, err := hasModule(sys, name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(sys, "module/file"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if _, err := hasModule(sys, "file"); err == nil {
		t.Error("what cannot be asked counts as not loaded")
	}
}

// newRelying gives a folder in which a relying update is kept, as it was applied for a reason.
func newRelying(t *testing.T, module, reason string) *Keep {
	t.Helper()
	k := &Keep{Dir: filepath.Join(t.TempDir(), "keep"), Run: filepath.Join(t.TempDir(), "run")}
	var file bytes.Buffer
	if err := errors.Join(os.Mkdir(k.Dir, 0o700), pack.Write(&file, relyingPackage(module)), k.Remember("fix", file.Bytes()),
		k.RememberExist("fix", "another reason"), k.RememberExist("fix", reason)); err != nil {
		t.Fatal(err)
	}
	s := oneUpdate()
	s.infos[0].State = uapi.DynamosCommitted
	if refused, err := k.Save(s, "fix", keptBuildID); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
	return k
}

// A boot holds the rule that apply held: without a reason nothing comes back while there may
// be objects, and with one the kernel is told.
func TestBootWithObjectsThatExist(t *testing.T) {
	for what, test := range map[string]struct {
		module, reason string
		loaded         bool
		want           string
	}{
		"a loaded module":                {"usb", "", true, "unload that module first"},
		"a module that is not loaded":    {"usb", "", false, ""},
		"a loaded module, with a reason": {"usb", "none is bound", true, ""},
		"the kernel":                     {"", "", false, "the kernel may have such objects"},
		"the kernel, with a reason":      {"", "none is used", false, ""},
	} {
		keep, kernel := newRelying(t, test.module, test.reason), freshKernel()
		if test.loaded {
			kernel.modules = []string{test.module}
		}
		err := boot(t, keep, kernel, "b1", true, false)
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) || len(kernel.did) != 0 {
				t.Errorf("%s: %v, did %q", what, err, kernel.did)
			}
			continue
		}
		if err != nil || !slices.Contains(kernel.did, "apply fix") || kernel.applied.Flags != existFlag(test.reason) {
			t.Errorf("%s: %v, did %q with flags %d", what, err, kernel.did, kernel.applied.Flags)
		}
	}
}

// So does the way back, after a boot and before one.
func TestWayBackWithObjectsThatExist(t *testing.T) {
	for reason, want := range map[string]string{"": "the kernel may have such objects", "none is used": ""} {
		keep, k := newRelying(t, "", reason), supersededFix()
		if err := GoBack(t.Context(), k, keep, "strict", "fix", false); err != nil || k.applied.Flags&uapi.DynamosObjectsExist != existFlag(reason) {
			t.Errorf("%q, loaded: %v, flags %d", reason, err, k.applied.Flags)
		}
		ended := oneUpdate()
		ended.infos[0].State, ended.infos[0].Cause = uapi.DynamosLeaving, uapi.DynamosSuperseded
		if err := errors.Join(keep.ForgetEnded(ended), os.RemoveAll(keep.Run)); err != nil {
			t.Fatal(err)
		}
		k = supersededFix()
		k.infos = k.infos[1:]
		err := GoBack(t.Context(), k, keep, "strict", "fix", false)
		if want != "" && (!isRefused(err, want) || len(k.did) != 0) {
			t.Errorf("without a reason: %v, did %q", err, k.did)
		}
		if want == "" {
			if again, e := keep.exist("fix"); err != nil || e != nil || again != reason || k.applied.Flags&uapi.DynamosObjectsExist == 0 {
				t.Errorf("with a reason: %v, flags %d, stored %q, %v", err, k.applied.Flags, again, e)
			}
		}
	}
}

// A module before there was the flag refuses it without a word.
func TestModuleThatKnowsNoObjects(t *testing.T) {
	was := ioctl
	t.Cleanup(func() { ioctl = was })
	answerAs(t, uapi.DynamosRevision)
	asked := ioctl
	ioctl = func(fd int, number uintptr, arg unsafe.Pointer) unix.Errno {
		asked(fd, number, arg)
		return unix.EINVAL
	}
	if err := (&Device{}).Apply(&uapi.DynamosApply{Flags: uapi.DynamosObjectsExist}); !isRefused(err, "next boot") {
		t.Error(err)
	}
	if err := (&Device{}).Apply(&uapi.DynamosApply{}); !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
}
