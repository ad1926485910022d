// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/pack"
	"skep/internal/uapi"
)

// A backKernel is one in which strict superseded fix, which is loaded.
type backKernel struct {
	*fakeKernel
	fails string
	kept  uapi.DynamosPolicy
}

func (k *backKernel) CommitFor(name string, p uapi.DynamosPolicy) error {
	k.did, k.kept = append(k.did, "commit "+name+" for"), p
	if k.fails == "commit" {
		return errFault
	}
	return nil
}

func (k *backKernel) Revert(name string, _ bool) error {
	k.did = append(k.did, "revert "+name)
	return nil
}

func infoOf(name string, state uapi.DynamosState) (i uapi.DynamosInfo) {
	copy(i.Name[:], name)
	i.State, i.Class = state, uapi.DynamosAny
	return i
}

// supersededFix returns a kernel in which strict is in force instead of fix.
func supersededFix() *backKernel {
	k := &backKernel{fakeKernel: freshKernel()}
	fix := infoOf("fix", uapi.DynamosLoaded)
	fix.Cause, fix.Policy.Rules, fix.Policy.Rule[0].Terms = uapi.DynamosSuperseded, 1, uapi.DynamosUID
	fix.Health.Errors = 9
	k.infos = []uapi.DynamosInfo{fix, infoOf("strict", uapi.DynamosCommitted)}
	return k
}

// The older update is loaded: it is put on trial for nobody, and takes its former calls in
// the step in which the newer one ends.
func TestWayBackIsOneStep(t *testing.T) {
	k := supersededFix()
	if err := GoBack(t.Context(), k, &Keep{}, "strict", "fix", false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"apply fix", "commit fix for"}; !slices.Equal(k.did, want) {
		t.Errorf("did %q, want %q", k.did, want)
	}
	a := &k.applied
	if a.Policy != (uapi.DynamosPolicy{}) || a.Flags != uapi.DynamosSupersede|uapi.DynamosBack || a.ConfirmMS == 0 || a.Health.Errors != 9 {
		t.Errorf("applied with flags %d, policy %+v, confirm %d, health %+v", a.Flags, a.Policy, a.ConfirmMS, a.Health)
	}
	if k.kept.Rules != 1 || k.kept.Rule[0].Terms != uapi.DynamosUID {
		t.Errorf("committed for %+v", k.kept)
	}
	k = supersededFix()
	if err := GoBack(t.Context(), k, &Keep{}, "strict", "fix", true); err != nil || k.applied.Flags != uapi.DynamosSupersede|uapi.DynamosBack|uapi.DynamosObjectsLeft {
		t.Errorf("with a reason for what strict set up: %v, flags %d", err, k.applied.Flags)
	}
	k = supersededFix()
	if k.fails = "commit"; !errors.Is(GoBack(t.Context(), k, &Keep{}, "strict", "fix", false), errFault) || k.did[2] != "revert fix" {
		t.Errorf("a commit that fails leaves %q", k.did)
	}
	k = supersededFix()
	k.infos[0].Class, k.infos[0].Policy = uapi.DynamosTogether, uapi.DynamosPolicy{Otherwise: 1}
	if err := GoBack(t.Context(), k, &Keep{}, "strict", "fix", false); err != nil || k.applied.Policy.Otherwise != 1 || !slices.Equal(k.did, []string{"apply fix", "commit fix"}) {
		t.Errorf("class together: %q, %v", k.did, err)
	}
}

// After a boot, the stored package of the older update is loaded.
func TestWayBackAfterABoot(t *testing.T) {
	keep := newKept(t)
	ended := oneUpdate()
	ended.infos[0].State, ended.infos[0].Cause = uapi.DynamosLeaving, uapi.DynamosSuperseded
	if err := keep.ForgetEnded(ended); err != nil {
		t.Fatal(err)
	}
	if list, err := keep.List(); err != nil || len(list) != 0 {
		t.Fatalf("a superseded update comes back at the boot: %v, %v", list, err)
	}
	if err := os.RemoveAll(keep.Run); err != nil { // the boot
		t.Fatal(err)
	}
	k := supersededFix()
	k.infos = k.infos[1:]
	if err := GoBack(t.Context(), k, keep, "strict", "fix", false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"load fix", "apply fix", "commit fix for"}; !slices.Equal(k.did, want) || k.kept.Otherwise != 1 {
		t.Errorf("did %q for %+v, want %q", k.did, k.kept, want)
	}
	if _, err := keep.Remembered("fix"); err != nil {
		t.Errorf("it would not be stored for the next boot: %v", err)
	}
	k.infos, k.build = k.infos[:1], strings.Repeat("f", 40)
	if err := GoBack(t.Context(), k, keep, "strict", "fix", false); err == nil || !strings.Contains(err.Error(), "not for this kernel") {
		t.Errorf("in another kernel: %v", err)
	}
	old := &Keep{Dir: keep.Dir + "/" + beforeDir}
	if err := pack.WriteFile(old.path("fix", pack.Suffix), changed(t)); err != nil {
		t.Fatal(err)
	}
	if err := GoBack(t.Context(), k, keep, "strict", "fix", false); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("another package in its place: %v", err)
	}
}

func changed(t *testing.T) *pack.Package {
	t.Helper()
	p := fixPackage()
	p.Modules[keptBuildID] = bytes.Clone([]byte("\x7fELF of another"))
	return p
}

// Where there is no way back, nothing is changed, and the sentence says what there is.
func TestNoWayBack(t *testing.T) {
	for want, change := range map[string]func(k *backKernel){
		"ends the trial":                        func(k *backKernel) { k.infos[1].State = uapi.DynamosTrial },
		"tasks are inside fix still":            func(k *backKernel) { k.infos[0].State = uapi.DynamosLeaving },
		"fix is committed: 'skep update revert": func(k *backKernel) { k.infos[0].State = uapi.DynamosCommitted },
		"no fix that a newer update superseded": func(k *backKernel) { k.infos[0].Cause = uapi.DynamosAsked },
	} {
		k := supersededFix()
		change(k)
		if err := GoBack(t.Context(), k, newKept(t), "strict", "fix", false); err == nil || !strings.Contains(err.Error(), want) || len(k.did) > 0 {
			t.Errorf("%s: %q, %v", want, k.did, err)
		}
	}
	if err := GoBack(t.Context(), supersededFix(), newKept(t), "strict", "../fix", false); err == nil || !strings.Contains(err.Error(), "is not the name of an update") {
		t.Error(err)
	}
}
