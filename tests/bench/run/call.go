// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"skep/tests/wine/wineserver"
)

// call measures one system call. The Win32 side has one figure only, because it has no
// vector states; it is printed for both.
func (b *bench) call() error {
	defer wineserver.Stop(wineserver.Env(b.prefix))
	program := filepath.Join(b.build, "bench", "linux", "calls")
	peer := side{name: "win32", words: []string{"wine"}, wine: true}
	sides := append(b.listSides(), peer)
	result, order, err := b.runMedians(sides, func(s side) []string {
		if s.name == "win32" {
			return []string{filepath.Join(b.build, "bench", "windows", "calls.exe")}
		}
		return []string{program}
	})
	if err != nil {
		return err
	}
	fmt.Printf("%-24s %9s %9s %9s %9s %9s %9s\n", "ns per call", "native", "bee", "bee.exe", "Win32", "ratio", "added")
	for _, key := range order {
		op, state, _ := strings.Cut(key, " ")
		native, linux, wine, win32 := result["native"][key], result["linux"][key], result["wine"][key], result["win32"][op]
		fmt.Printf("%-24s %9.1f %9.1f %9.1f %9.1f %9.2f %9.1f\n", key, native, linux, wine, win32, wine/win32, wine-win32)
		b.writeRecord("result bench=bee_call op=%s state=%s native_ns=%.1f linux_ns=%.1f wine_ns=%.1f win32_ns=%.1f ratio=%.3f added_ns=%.1f",
			op, state, native, linux, wine, win32, wine/win32, wine-win32)
	}
	fmt.Println("ratio and added: bee.exe against the Win32 call in the same Wine")
	b.printInstructions(program)
	return nil
}

// printInstructions prints user instructions per call, if the machine has a counter: the
// difference of two runs that differ only in their numbers of calls.
func (b *bench) printInstructions(program string) {
	if _, err := countInstructions(b.makeCommand(side{}, "true")); err != nil {
		fmt.Println("instructions: not counted: no counter here")
		b.writeRecord("result bench=bee_call instructions=none")
		return
	}
	const n = 20000
	for _, s := range b.listSides() {
		for _, op := range []string{"getpid", "write_null_64", "read_file_1k"} {
			for _, state := range []string{"clean", "avx"} {
				one, err1 := countInstructions(b.makeCommand(s, program, op, state, strconv.Itoa(n)))
				two, err2 := countInstructions(b.makeCommand(s, program, op, state, strconv.Itoa(2*n)))
				if err1 != nil || err2 != nil {
					fmt.Printf("instructions: %s %s %s: %v %v\n", s.name, op, state, err1, err2)
					continue
				}
				b.writeRecord("result bench=bee_call op=%s state=%s side=%s instructions=%.1f", op, state, s.name, float64(two-one)/n)
			}
		}
	}
}

// countInstructions runs a command under perf stat and returns its user instructions.
func countInstructions(cmd *exec.Cmd) (int64, error) {
	words := append([]string{"perf", "stat", "-x,", "-e", "instructions:u", "--"}, cmd.Args...)
	perf := exec.Command(words[0], words[1:]...)
	perf.Dir, perf.Env = cmd.Dir, cmd.Env
	var errors strings.Builder
	perf.Stderr = &errors
	if err := perf.Run(); err != nil {
		return 0, err
	}
	for line := range strings.Lines(errors.String()) {
		if fields := strings.Split(line, ","); len(fields) > 2 && strings.HasPrefix(fields[2], "instructions") {
			return strconv.ParseInt(fields[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no counter here")
}
