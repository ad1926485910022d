// SPDX-License-Identifier: MIT

// Package proctree lists the processes below another one: its children, their children,
// and so on.
package proctree

// descend lists the processes below root. children holds those that name a process as
// their parent. A process that started before its parent is not its child: on Windows the
// parent has ended, and another process got its number. started is negative if unknown;
// such a process counts as nobody's.
func descend(root int, children map[int][]int, started func(pid int) int64) (list []int) {
	type process struct {
		pid     int
		started int64
	}
	first := process{root, started(root)}
	if first.started < 0 {
		return nil
	}
	known := map[int]bool{root: true}
	for todo := []process{first}; len(todo) > 0; todo = todo[1:] {
		parent := todo[0]
		for _, pid := range children[parent.pid] {
			at := started(pid)
			if known[pid] || at < parent.started {
				continue
			}
			known[pid] = true
			list = append(list, pid)
			todo = append(todo, process{pid, at})
		}
	}
	return list
}
