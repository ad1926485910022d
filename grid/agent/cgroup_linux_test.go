// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// An agent says why it has no control groups.
func TestCgroupsRefused(t *testing.T) {
	self := fmt.Sprint(os.Getpid(), "\n")
	for _, c := range []struct{ name, mount, own, controllers, procs, why string }{
		{"only version 1", "cgroup", "0::/a", "memory pids", self, "no hierarchy of control groups of version 2"},
		{"a container's part", "part", "0::/a", "memory pids", self, "no hierarchy of control groups of version 2"},
		{"no group", "cgroup2", "4:memory:/a", "memory pids", self, "is in no control group of version 2"},
		{"no controller", "cgroup2", "0::/a", "cpu pids memory2", self, "/a was not given the controller memory"},
		{"no second controller", "cgroup2", "0::/a", "memory", self, "/a was not given the controller pids"},
		{"a login session", "cgroup2", "0::/a", "memory pids", self + "1\n", "Delegate=yes"},
		{"no file to write", "cgroup2", "0::/a", "cpu memory pids", self, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			line, kind := "30 20 0:26 / "+root+" rw,nosuid - ", c.mount
			if kind == "part" {
				line, kind = "30 20 0:26 /docker "+root+" rw,nosuid - ", "cgroup2"
			}
			write := func(path, text string) string {
				path = filepath.Join(root, path)
				os.MkdirAll(filepath.Dir(path), 0o755)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			write("a/cgroup.controllers", c.controllers+"\n")
			write("a/cgroup.procs", c.procs)
			g, err := openCgroups(write("mountinfo", line+kind+" none rw\n"), write("own", "1:cpu:/b\n"+c.own+"\n"))
			if g != nil || err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, %v", g, err)
			}
		})
	}
}

// The kernel ends a program at its limit, so the program used no more than that.
func TestLimitOfTheKernelIsNamed(t *testing.T) {
	e := excess{proto.LimitMemory, 50 * mega, 50 * mega}
	want := "it exceeded its limit: it needed more than the 50 MiB of memory allowed; ask for more with --memory"
	if got := e.message(proto.Limits{}); got != want {
		t.Error(got)
	}
}
