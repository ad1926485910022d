// SPDX-License-Identifier: MIT

package part

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// kernelThread is the flag in /proc/PID/stat of a thread that Linux itself
// moves and brings back.
const kernelThread = 0x00200000

// FindBound lists what loses its CPU affinity if these CPUs go offline: threads
// that are bound to them alone, as "name (number)", and control groups of the
// old kind (cgroup v1) whose set has any of them, by their folders. Linux gives
// neither of them back. root is the machine's root; what ends meanwhile or
// can't be seen isn't named.
func FindBound(root fs.FS, cpus CPUs) (threads, groups []string) {
	tasks, _ := fs.Glob(root, "proc/[0-9]*/task/[0-9]*")
	for _, task := range tasks {
		if name, bound := boundThread(root, task, cpus); bound {
			threads = append(threads, fmt.Sprintf("%s (%s)", name, path.Base(task)))
		}
	}
	for _, mount := range cpusetMounts(root) {
		groups = append(groups, boundGroups(root, mount, cpus)...)
	}
	return threads, groups
}

func boundThread(root fs.FS, task string, cpus CPUs) (name string, bound bool) {
	stat, err := fs.ReadFile(root, path.Join(task, "stat"))
	if err != nil {
		return "", false
	}
	// number (name) state parent group session terminal owner flags
	_, text, _ := strings.Cut(string(stat), "(")
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return "", false
	}
	fields := strings.Fields(text[end+1:])
	if len(fields) < 7 {
		return "", false
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil || flags&kernelThread != 0 {
		return "", false
	}
	status, err := fs.ReadFile(root, path.Join(task, "status"))
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(status)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		allowed, err := ParseCPUs(strings.TrimSpace(list))
		bound := err == nil && allowed.isSubset(cpus) && !groupsChoice(root, task, allowed)
		return text[:end], bound
	}
	return "", false
}

// groupsChoice reports whether a thread is where it is because its control group
// (cgroup v2) is: then both come back.
func groupsChoice(root fs.FS, task string, allowed CPUs) bool {
	text, err := fs.ReadFile(root, path.Join(task, "cgroup"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !ok {
			continue
		}
		set, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", group, "cpuset.cpus.effective"))
		if err != nil {
			return false
		}
		effective, err := ParseCPUs(strings.TrimSpace(string(set)))
		return err == nil && effective.isSubset(allowed)
	}
	return false
}

// cpusetMounts returns where sets of CPUs of the old kind are mounted.
func cpusetMounts(root fs.FS) (mounts []string) {
	text, err := fs.ReadFile(root, "proc/self/mounts")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		// device folder type options
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" {
			continue
		}
		options := strings.Split(f[3], ",")
		if slices.Contains(options, "cpuset") && !slices.Contains(options, "cpuset_v2_mode") {
			mounts = append(mounts, f[1])
		}
	}
	return mounts
}

// boundGroups looks below a mount, whose own set follows the machine.
func boundGroups(root fs.FS, mount string, cpus CPUs) (groups []string) {
	top := strings.TrimPrefix(mount, "/")
	fs.WalkDir(root, top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || name == top {
			return nil
		}
		text, err := fs.ReadFile(root, path.Join(name, "cpuset.cpus"))
		if err != nil {
			return nil
		}
		if set, err := ParseCPUs(strings.TrimSpace(string(text))); err == nil && set.intersects(cpus) {
			groups = append(groups, "/"+name)
		}
		return nil
	})
	return groups
}

// intersects reports whether both have a CPU.
func (c CPUs) intersects(other CPUs) bool {
	for i := range c {
		if c[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// isSubset reports whether c has no CPU that other lacks.
func (c CPUs) isSubset(other CPUs) bool {
	for i := range c {
		if c[i]&^other[i] != 0 {
			return false
		}
	}
	return true
}
