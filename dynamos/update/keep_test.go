// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

const keptBuildID = "0123456789abcdef0123456789abcdef01234567"

// A fakeKernel takes updates as a kernel does.
type fakeKernel struct {
	fakeEngine
	build   string
	did     []string
	applied uapi.DynamosApply
	state   uapi.DynamosState // of what was applied
	modules []string          // that are loaded
}

func (k *fakeKernel) HasModule(name string) (bool, error) {
	return slices.Contains(k.modules, name), nil
}

func (k *fakeKernel) BuildID() (string, error) { return k.build, nil }

func (k *fakeKernel) Load(name string, module []byte) (bool, error) {
	k.did = append(k.did, "load "+name)
	return true, nil
}

func (k *fakeKernel) Apply(_ context.Context, name string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	k.did, k.applied = append(k.did, "apply "+name), *a
	i := uapi.DynamosInfo{State: k.state, Policy: a.Policy}
	copy(i.Name[:], name)
	copy(i.End[:], "it failed")
	k.infos = append(k.infos, i)
	return i, nil
}

func (k *fakeKernel) Commit(name string) error {
	k.did = append(k.did, "commit "+name)
	return nil
}

// fixPackage returns the package of the update "fix".
func fixPackage() *pack.Package {
	return &pack.Package{Manifest: pack.Manifest{Revision: pack.Revision, Name: "fix", Class: pack.Any, Proposed: pack.Any,
		Files: []string{"net/ipv4/arp.c"}, Kernels: []pack.Kernel{{BuildID: keptBuildID, Release: "6.1.0-50-amd64", Version: "6.1.176-1",
			Functions: []pack.Function{{Symbol: pack.Symbol{Name: "arp_ioctl"}, File: "net/ipv4/arp.c", Type: "int arp_ioctl(void)",
				Args: 3, Result: pack.Int, OldSize: 100, Size: 120, Original: strings.Repeat("0", 64)}},
			Imports: []pack.Symbol{{Name: "arp_req_set", Position: 1}}}}},
		Patch: []byte("--- a\n+++ b\n"), Modules: map[string][]byte{keptBuildID: []byte("\x7fELF and more")}}
}

// newKept gives a folder in which the update "fix" is kept, for all tasks.
func newKept(t *testing.T) *Keep {
	t.Helper()
	k := &Keep{Dir: filepath.Join(t.TempDir(), "keep"), Run: filepath.Join(t.TempDir(), "run")}
	if err := os.Mkdir(k.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := fixPackage()
	var file bytes.Buffer
	if err := pack.Write(&file, p); err != nil {
		t.Fatal(err)
	}
	if err := k.Remember("fix", file.Bytes()); err != nil {
		t.Fatal(err)
	}
	s := oneUpdate()
	s.infos[0].State = uapi.DynamosCommitted
	if refused, err := k.Save(s, "fix", keptBuildID); refused != "" || err != nil {
		t.Fatal(refused, err)
	}
	return k
}

// boot restores in a boot of this name.
func boot(t *testing.T, keep *Keep, kernel *fakeKernel, id string, lasts, retry bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &Restore{Keep: keep, Kernel: kernel, BootID: id, Settle: time.Millisecond, Retry: retry, Says: t.Logf, Ready: func() {}}
	if !lasts { // the power fails when all are on trial: nothing after that is done
		r.Settle = time.Hour
		r.Ready = func() { panic("power") }
		defer func() { recover() }()
	}
	kernel.did = nil
	return r.Run(ctx)
}

func freshKernel() *fakeKernel {
	return &fakeKernel{build: keptBuildID, state: uapi.DynamosTrial}
}

func TestKeptUpdateComesBackOnTrial(t *testing.T) {
	keep, kernel := newKept(t), freshKernel()
	if err := boot(t, keep, kernel, "b1", true, false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"load fix", "apply fix", "commit fix"}; !slices.Equal(kernel.did, want) {
		t.Errorf("did %v, want %v", kernel.did, want)
	}
	if kernel.applied.Policy.Otherwise != 1 || kernel.applied.ConfirmMS == 0 {
		t.Errorf("applied with %d, confirm %d: it is not as committed, or never reverted by the kernel", kernel.applied.Policy.Otherwise, kernel.applied.ConfirmMS)
	}
	if _, err := os.Stat(filepath.Join(keep.Dir, bootFile)); err == nil {
		t.Error("nobody watches the boot any more, and it is marked")
	}
}

func TestKeptUpdateOfAnotherKernelStaysOut(t *testing.T) {
	keep, kernel := newKept(t), freshKernel()
	kernel.build = strings.Repeat("f", 40)
	err := boot(t, keep, kernel, "b1", true, false)
	if err == nil || !strings.Contains(err.Error(), "another kernel, whose build-id is "+keptBuildID) || len(kernel.did) > 0 {
		t.Errorf("%v: %v", kernel.did, err)
	}
	if list, _ := keep.List(); len(list) != 1 {
		t.Error("it was forgotten, though its kernel may be booted again")
	}
}

// Two boots that end before the machine has settled turn the updates off; a boot
// that is turned off as it should be does not count.
func TestKeptUpdatesEndABootLoop(t *testing.T) {
	keep := newKept(t)
	for _, id := range []string{"b1", "b2"} {
		kernel := freshKernel()
		boot(t, keep, kernel, id, false, false)
		if !slices.Contains(kernel.did, "apply fix") {
			t.Fatalf("boot %s: %v", id, kernel.did)
		}
	}
	kernel := freshKernel()
	err := boot(t, keep, kernel, "b3", true, false)
	if err == nil || !strings.Contains(err.Error(), "2 boots with [fix] ended") || len(kernel.did) > 0 {
		t.Fatalf("the third boot: %v, %v", kernel.did, err)
	}
	if err = boot(t, keep, freshKernel(), "b4", true, false); err == nil {
		t.Error("the fourth boot brings it back")
	}
	kernel = freshKernel()
	if err = boot(t, keep, kernel, "b5", true, true); err != nil || !slices.Contains(kernel.did, "commit fix") {
		t.Errorf("with --retry: %v, %v", kernel.did, err)
	}
	if err = boot(t, keep, freshKernel(), "b6", true, false); err != nil {
		t.Errorf("after a boot that lasted: %v", err)
	}
}

func TestKeptUpdatesAndACleanShutdown(t *testing.T) {
	keep := newKept(t)
	for n := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		kernel := freshKernel()
		r := &Restore{Keep: keep, Kernel: kernel, BootID: fmt.Sprint(n), Settle: time.Hour, Says: t.Logf, Ready: cancel}
		if err := r.Run(ctx); err != nil || !slices.Contains(kernel.did, "apply fix") || slices.Contains(kernel.did, "commit fix") {
			t.Fatalf("boot %d: %v, %v", n, kernel.did, err)
		}
	}
}

// Started again in the same boot, with everything committed, there is nothing to wait for.
func TestKeptUpdateThatIsCommitted(t *testing.T) {
	keep, kernel := newKept(t), freshKernel()
	if err := boot(t, keep, kernel, "b1", true, false); err != nil {
		t.Fatal(err)
	}
	kernel.did, kernel.infos[0].State = nil, uapi.DynamosCommitted
	r := &Restore{Keep: keep, Kernel: kernel, BootID: "b1", Settle: 100 * time.Hour, Says: t.Logf, Ready: func() {}}
	if err := r.Run(t.Context()); err != nil || len(kernel.did) > 0 {
		t.Errorf("%v: %v", kernel.did, err)
	}
}

// What the kernel reverted meanwhile is not committed, and does not come again.
func TestKeptUpdateThatTheKernelReverted(t *testing.T) {
	keep, kernel := newKept(t), freshKernel()
	kernel.state = uapi.DynamosLoaded
	err := boot(t, keep, kernel, "b1", true, false)
	if err == nil || !strings.Contains(err.Error(), "it failed") || slices.Contains(kernel.did, "commit fix") {
		t.Errorf("%v: %v", kernel.did, err)
	}
	if list, _ := keep.List(); len(list) != 0 {
		t.Errorf("kept: %v", list)
	}
}

// Root loads nothing that another account could have put there, and no package
// but the one that was committed.
func TestKeptUpdateThatWasChanged(t *testing.T) {
	keep, kernel := newKept(t), freshKernel()
	another, err := pack.Open(keep.path("fix", pack.Suffix))
	if err != nil {
		t.Fatal(err)
	}
	another.Modules[keptBuildID] = []byte("\x7fELF of another")
	if err := pack.WriteFile(keep.path("fix", pack.Suffix), another); err != nil {
		t.Fatal(err)
	}
	if err := boot(t, keep, kernel, "b1", true, false); err == nil || len(kernel.did) > 0 {
		t.Errorf("%v: %v", kernel.did, err)
	}
	if on, err := keep.IsOn(); !on || err != nil {
		t.Error(on, err)
	}
	if err := os.Chmod(keep.Dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if on, err := keep.IsOn(); on || err == nil {
		t.Error("a folder that a group may change is trusted")
	}
	for text, name := range map[string]string{"{": "broken", `{"Name":"other"}`: "moved"} {
		if err := os.WriteFile(keep.path(name, ".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := keep.List(); len(list) != 1 || err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "moved") {
		t.Errorf("%v, %v", list, err)
	}
}

func TestPolicyThatEndsWithTheBoot(t *testing.T) {
	for _, term := range []uint32{uapi.DynamosPID, uapi.DynamosTGID, uapi.DynamosWindow, uapi.DynamosProgram} {
		k := Kept{Cgroups: map[int]string{}}
		k.Policy.Rules, k.Policy.Rule[0].Terms = 1, term
		if k.nameCgroups(func(uint64) string { return "" }) == "" {
			t.Errorf("a rule with term %#x comes back", term)
		}
	}
	k := Kept{Cgroups: map[int]string{}}
	k.Policy.Rules, k.Policy.Rule[0].Terms, k.Policy.Rule[0].Cgroup = 1, uapi.DynamosCgroup, 7
	if k.nameCgroups(func(uint64) string { return "" }) == "" {
		t.Error("a cgroup that is gone comes back")
	}
	if why := k.nameCgroups(func(id uint64) string { return fmt.Sprint("/job", id) }); why != "" {
		t.Error(why)
	}
	if err := k.numberCgroups(func(path string) (uint64, error) { return uint64(len(path)), nil }); err != nil || k.Policy.Rule[0].Cgroup != 5 {
		t.Errorf("cgroup %d, %v", k.Policy.Rule[0].Cgroup, err)
	}
	k.Cgroups[99] = "/x"
	if err := k.numberCgroups(func(string) (uint64, error) { return 1, nil }); err == nil {
		t.Error("a rule that is not there is taken")
	}
}

// An update is restored with the limits of its health that it had, and not at all if a cgroup of
// its policy is gone: it would be in force for others, or for nobody.
func TestRestoredAsItWas(t *testing.T) {
	keep := newKept(t)
	list, err := keep.List()
	if err != nil {
		t.Fatal(err)
	}
	kept := list[0]
	kept.Health.Errors = 7
	if err := keep.write(&kept); err != nil {
		t.Fatal(err)
	}
	kernel := freshKernel()
	if err := boot(t, keep, kernel, "b1", true, false); err != nil || kernel.applied.Health != kept.Health {
		t.Errorf("%v, %+v", err, kernel.applied.Health)
	}
	kept.Cgroups = map[int]string{0: "/gone"}
	if err := keep.write(&kept); err != nil {
		t.Fatal(err)
	}
	kernel = freshKernel()
	if err := boot(t, keep, kernel, "b2", true, false); err == nil || !strings.Contains(err.Error(), "fix does not come back") || len(kernel.did) > 0 {
		t.Errorf("did %v, %v", kernel.did, err)
	}
}
