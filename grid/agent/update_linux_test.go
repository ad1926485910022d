// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// A kernel update is in force before a program is in its group, and ends with the group.
func TestUpdateOfAProgram(t *testing.T) {
	a := &Agent{cgroups: &cgroups{dir: t.TempDir()}}
	held := map[string]string{}
	refuse := error(nil)
	a.config.HoldUpdate = func(_ context.Context, name, cgroup string) (func(), error) {
		if _, err := os.Stat(cgroup); err != nil {
			t.Errorf("asked for a group that is not there: %v", err)
		}
		if refuse == nil {
			held[name] = cgroup
		}
		return func() { delete(held, name) }, refuse
	}
	g, err := a.openCgroup(&command{update: "fix"})
	if err != nil || held["fix"] != g.path {
		t.Fatalf("held %v, %v", held, err)
	}
	g.remove()
	if len(held) != 0 {
		t.Errorf("held after the end: %v", held)
	}
	if g, err = a.openCgroup(&command{}); err != nil || len(held) != 0 {
		t.Errorf("a program that asks for none: %v, %v", held, err)
	}
	g.remove()
	for want, cause := range map[string]error{"not in force for the program: it is on trial": &RefusedError{"it is on trial"}, "not in force for the program: a fault": errors.New("a fault")} {
		refuse = cause
		_, err := a.openCgroup(&command{update: "fix"})
		var f *failure
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &f) != strings.Contains(want, "trial") {
			t.Errorf("%v", err)
		}
		if left, _ := filepath.Glob(a.cgroups.dir + "/*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	a.cgroups, a.ungrouped = nil, errors.New("none is mounted")
	var f *failure
	if _, err := a.openCgroup(&command{update: "fix"}); !errors.As(err, &f) || f.reason != proto.ReasonRefused || !strings.Contains(err.Error(), "none is mounted") {
		t.Errorf("%v", err)
	}
}

// A node that cannot give an update does not run the program without it.
func TestExecWithoutUpdates(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		got := r.execAndWait(proto.Exec{ID: "1", Program: r.cache.put(t, readBusybox(t)), Name: "busybox", Args: []string{"echo", "hello"}, Update: "fix"}, "")
		if got.out != "" || !strings.Contains(got.failed, "gives programs no kernel updates") {
			t.Errorf("%+v", got)
		}
	})
}
