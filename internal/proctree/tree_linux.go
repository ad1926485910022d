// SPDX-License-Identifier: MIT

package proctree

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Places of fields in Stat: see proc_pid_stat(5).
const (
	State   = 0
	parent  = 1
	times   = 11 // utime and stime, and those of children that were waited for
	Threads = 17
	start   = 19

	timesEnd = times + 4
)

// ClockTick is the unit of times in /proc: so many are a second.
const ClockTick = 100

// Stat returns the fields of PID/stat in proc that follow the name; nil if there is no such
// process. proc is /proc except in tests.
func Stat(proc string, pid int) []string {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) <= start {
		return nil
	}
	return f
}

// Below lists the processes below one.
func Below(proc string, root int) []int {
	children, started := map[int][]int{}, map[int]int64{}
	names, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		if f := Stat(proc, pid); f != nil {
			up, _ := strconv.Atoi(f[parent])
			children[up] = append(children[up], pid)
			started[pid], _ = strconv.ParseInt(f[start], 10, 64)
		}
	}
	return descend(root, children, func(pid int) int64 {
		if at, ok := started[pid]; ok {
			return at
		}
		return -1
	})
}

// Seconds is the processor time that processes used, and those that they waited for.
func Seconds(proc string, pids ...int) (sum float64) {
	for _, pid := range pids {
		f := Stat(proc, pid)
		if f == nil {
			continue
		}
		for _, text := range f[times:timesEnd] {
			n, _ := strconv.ParseFloat(text, 64)
			sum += n / ClockTick
		}
	}
	return sum
}
