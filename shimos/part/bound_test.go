// SPDX-License-Identifier: MIT

package part

import (
	"reflect"
	"testing"
	"testing/fstest"
)

func TestBound(t *testing.T) {
	root := fstest.MapFS{}
	file := func(name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }
	task := func(number, name, flags, list string) {
		dir := "proc/" + number + "/task/" + number + "/"
		file(dir+"stat", number+" ("+name+") S 1 1 1 0 -1 "+flags+" 7 7\n")
		file(dir+"status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t"+list+"\n")
	}
	task("10", "bound", "4194560", "2-3")
	task("11", "half) (way", "4194560", "3")
	task("12", "free", "4194560", "0-3")
	task("13", "elsewhere", "4194560", "1")
	task("14", "cpuhp/3", "69238848", "3") // the kernel's own
	task("17", "grouped", "4194560", "2-3")
	file("proc/17/task/17/cgroup", "1:memory:/x\n0::/lent\n")
	file("sys/fs/cgroup/lent/cpuset.cpus.effective", "2-3\n")
	task("18", "bound below", "4194560", "3")
	file("proc/18/task/18/cgroup", "0::/lent\n")
	file("proc/15/task/15/stat", "15 (gone")
	file("proc/16/task/16/stat", "16 (no) S")
	file("proc/self/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0\n"+
		"none /old cgroup rw,cpuset 0 0\nnone /mem cgroup rw,memory 0 0\nnone /v2 cgroup rw,cpuset,cpuset_v2_mode 0 0\n")
	file("old/cpuset.cpus", "0-3\n")
	file("old/a/cpuset.cpus", "0-1\n")
	file("old/a/b/cpuset.cpus", "1-2\n")
	file("old/empty/cpuset.cpus", "\n")
	file("v2/c/cpuset.cpus", "2-3\n")

	cpus, err := ParseCPUs("2-3")
	if err != nil {
		t.Fatal(err)
	}
	threads, groups := FindBound(root, cpus)
	if want := []string{"bound (10)", "half) (way (11)", "bound below (18)"}; !reflect.DeepEqual(threads, want) {
		t.Errorf("threads %q, want %q", threads, want)
	}
	if want := []string{"/old/a/b"}; !reflect.DeepEqual(groups, want) {
		t.Errorf("groups %q, want %q", groups, want)
	}
}
