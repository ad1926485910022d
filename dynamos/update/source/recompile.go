// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"skep/dynamos/update/rely"
)

// roundFlags are what compileRound has make add to the compiler's options.
const roundFlags = flags + " " + rely.Flag

// recompile compiles the units as compileRound did last, with other flags, and moves their
// assembly to a folder. It returns false if make has to: make tries about 30 options of the
// compiler each time that it starts, which takes longer than to compile one file.
func (w *Work) recompile(ctx context.Context, t *Tree, name, newFlags string) bool {
	if len(w.Units) > Quick {
		return false
	}
	var commands []string
	for _, u := range w.Units {
		command, ok := t.readCommand(assemblyName(u), newFlags)
		if !ok {
			return false
		}
		commands = append(commands, command)
	}
	failed := make([]error, len(commands))
	var all sync.WaitGroup
	for i, command := range commands {
		all.Go(func() {
			_, failed[i] = runOutput(ctx, t.Dir, nil, "/bin/sh", "-c", command)
		})
	}
	all.Wait()
	return errors.Join(failed...) == nil && w.moveAssembly(t, name) == nil
}

// readCommand returns the command by which make made a target, with other flags. The file is of
// the kernel's build system, whose scripts/clang-tools/gen_compile_commands.py reads it too.
func (t *Tree) readCommand(target, newFlags string) (string, bool) {
	dir, base := filepath.Split(target)
	text, err := os.ReadFile(filepath.Join(t.Dir, dir, "."+base+".cmd"))
	if err != nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	left, command, ok := strings.Cut(line, " := ")
	if !ok || !slices.Contains([]string{"cmd_" + target, "savedcmd_" + target}, left) {
		return "", false
	}
	command = strings.NewReplacer("$$", "$", "$(pound)", "#", `\#`, "#").Replace(command)
	_, given, _ := strings.Cut(roundFlags, "=")
	_, wanted, _ := strings.Cut(newFlags, "=")
	if strings.Count(command, given) != 1 {
		return "", false
	}
	return strings.Replace(command, given, wanted, 1), true
}
