// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/image"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/source"
	"skep/lab"
)

func TestSourceIsThatOfTheImagesPackage(t *testing.T) {
	k := &lab.Kernel{Dir: "kernel"}
	for release, want := range map[string]string{"6.1.0-50-amd64": "6.1.0-50-amd64", "6.1.0~rc1+x_2": "6.1.0~rc1+x_2", "6.1; reboot": "", "$(HOME)": ""} {
		got, err := sourceOf(&image.Image{Version: "6.1.176-1", Release: release}, k)
		if err != nil || got.Version != "6.1.176-1" || got.Release != want || got.Config != k.Config() || filepath.Base(got.Symvers) != "Module.symvers" {
			t.Errorf("%s: %+v, %v", release, got, err)
		}
	}
	var r *RefusedError
	if _, err := sourceOf(&image.Image{Release: "6.1.0"}, k); !errors.As(err, &r) || !strings.Contains(err.Error(), "of which package of Debian") {
		t.Errorf("an image of nobody: %v", err)
	}
}

// What only livepatch can lead needs class together, whatever its author states.
func TestUncountedFunctionsNeedClassTogether(t *testing.T) {
	for class, want := range map[string]string{"": pack.Together, pack.Together: pack.Together, pack.Any: "", pack.Task: ""} {
		out := &pack.Package{}
		b := &builder{plan: &Plan{Class: class, Because: "it is so"}, out: out, work: &source.Work{}, uncounted: []string{"f takes a variable number of arguments"}}
		err := b.chooseClass()
		var r *RefusedError
		if want == "" && (!errors.As(err, &r) || !strings.Contains(err.Error(), "class "+class+" cannot be: f takes a variable number")) {
			t.Errorf("class %s: %v", class, err)
		}
		if want != "" && (err != nil || out.Class != want || !slices.Contains(out.Reasons, b.uncounted[0])) {
			t.Errorf("class %q: %v, %+v", class, err, out.Manifest)
		}
	}
}

// An author may choose another class than the proposed one, and says why.
func TestAuthorChoosesTheClass(t *testing.T) {
	for _, c := range []struct{ class, because, refused string }{
		{"", "", ""},
		{pack.Any, "", ""}, // as proposed
		{pack.Task, "it is so", ""},
		{pack.Together, "it is so", ""},
		{pack.Task, "", "the change asks for class any"},
	} {
		out := &pack.Package{}
		b := &builder{plan: &Plan{Class: c.class, Because: c.because}, out: out, work: &source.Work{}}
		err := b.chooseClass()
		if c.refused != "" {
			var r *RefusedError
			if !errors.As(err, &r) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("class %q: %v", c.class, err)
			}
			continue
		}
		want := c.class
		if want == "" {
			want = out.Proposed
		}
		if err != nil || out.Class != want || out.Because != c.because || out.Proposed != pack.Any {
			t.Errorf("class %q: %v, %+v", c.class, err, out.Manifest)
		}
	}
}

// The package tells each reason once, whatever kernel it is for.
func TestPackageHasTheReasonsOfAllKernels(t *testing.T) {
	out := &pack.Package{}
	for _, note := range []string{"a task may end in f", "a task may end in g", "a task may end in f"} {
		b := &builder{plan: &Plan{}, out: out, work: &source.Work{Files: []string{"mm/leaf.c"}}, notes: []string{note}}
		if err := b.chooseClass(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(out.Reasons); n != 3 || !strings.HasPrefix(out.Reasons[0], "one function changes") ||
		!slices.Equal(out.Reasons[1:], []string{"a task may end in f", "a task may end in g"}) {
		t.Errorf("reasons %q", out.Reasons)
	}
	if out.Class != pack.Any || !slices.Equal(out.Files, []string{"mm/leaf.c"}) {
		t.Errorf("class %s, files %v", out.Class, out.Files)
	}
}
