// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processesKnowing lists the processes whose environment contains word.
func processesKnowing(word string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), word) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func procFile(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	return string(text)
}

// isWorker reports whether a process runs a program, rather than being its guard.
func isWorker(pid int) bool {
	if strings.Contains(procFile(pid, "cmdline"), "bee.exe") {
		return true
	}
	return strings.Contains(procFile(pid, "environ"), "SKEP_STREAM=")
}

func describeProcesses(pids []int) string {
	var out []string
	for _, pid := range pids {
		line := strings.ReplaceAll(procFile(pid, "cmdline"), "\x00", " ")
		out = append(out, fmt.Sprintf("%d %.200q", pid, line))
	}
	return strings.Join(out, ", ")
}

func childrenOf(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
