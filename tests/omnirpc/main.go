// SPDX-License-Identifier: MIT

// Command omnirpc runs the unchanged programs of the public OmniRPC 2 tree. For each it
// prints whether the interface files are accepted, whether the program compiles, and whether
// its results are right. This tree contains nothing of OmniRPC's; the path of its tree is an
// argument.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

const (
	buildTime = 2 * time.Minute
	runTime   = 3 * time.Minute
)

// A room is where the cases are built and run.
type room struct {
	tree, skep, dir string
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: omnirpc SKEP TREE [NINFG]: name a checkout of OmniRPC 2, as make soak ROOM=omnirpc OMNIRPC=TREE does, and one of Ninf-G")
		os.Exit(2)
	}
	good, err := runAll(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "omnirpc:", err)
		os.Exit(1)
	}
	if !good {
		os.Exit(1)
	}
}

func runAll(skep, tree string, ninfg []string) (bool, error) {
	r := &room{}
	var err error
	if r.skep, err = filepath.Abs(skep); err == nil {
		r.dir, err = os.MkdirTemp("", "skep-omnirpc-")
	}
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(r.dir)
	good := true
	for _, other := range ninfg {
		accepted, all, err := r.tryInterfaces(other)
		if err != nil {
			return false, err
		}
		fmt.Printf("\n%d of %d interface files of Ninf-G accepted\n\n", accepted, all)
		good = good && accepted == all
	}
	accepted, all, err := r.tryInterfaces(tree)
	if err != nil {
		return false, err
	}
	compiled, right := r.runPrograms()
	fmt.Printf("\n%d of %d interface files accepted, %d of %d programs compiled unchanged, %d with the right result\n",
		accepted, all, compiled, len(programs), right)
	return good && accepted == all && right == len(programs), nil
}

// tryInterfaces tries all interface files of a tree and counts the accepted ones. It sets
// r.tree to this tree.
func (r *room) tryInterfaces(tree string) (accepted, all int, err error) {
	if r.tree, err = filepath.Abs(tree); err != nil {
		return 0, 0, err
	}
	files, err := r.listInterfaces()
	if err != nil {
		return 0, 0, err
	}
	fmt.Printf("| interface file | accepted | cause |\n|---|---|---|\n")
	for _, f := range files {
		why := r.checkIDL(f)
		if why == "" {
			accepted++
		}
		fmt.Printf("| %s | %s | %s |\n", f, firstWord(why), why)
	}
	return accepted, len(files), nil
}

func firstWord(why string) string {
	if why == "" {
		return "yes"
	}
	return "no"
}

func (r *room) runPrograms() (compiled, right int) {
	fmt.Printf("\n| program | worker | compiles | result | cause |\n|---|---|---|---|---|\n")
	for i := range programs {
		p := &programs[i]
		dir := filepath.Join(r.dir, fmt.Sprint("case", i))
		worker, client, result := r.runCase(p, dir)
		why := worker
		if client == "" {
			compiled++
		}
		if why == "" {
			why = client
		}
		if why == "" {
			why = result
		}
		if why == "" {
			right++
		}
		fmt.Printf("| %s | %s | %s | %s | %s |\n", p.name, firstWord(worker), firstWord(client), firstWord(why), why)
	}
	return compiled, right
}

// listInterfaces lists all files of the tree that end in .idl, each text once.
func (r *room) listInterfaces() ([]string, error) {
	var list []string
	seen := map[string]bool{}
	err := filepath.Walk(r.tree, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(path, ".idl") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !seen[string(text)] {
			seen[string(text)] = true
			name, _ := filepath.Rel(r.tree, path)
			list = append(list, name)
		}
		return err
	})
	sort.Strings(list)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s has no interface files: is it a checkout of OmniRPC 2?", r.tree)
	}
	return list, err
}

// runCommand returns a program's output, and an error if it failed.
func (r *room) runCommand(limit time.Duration, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %v", limit)
	}
	return string(out), err
}

// firstError returns the line that says what went wrong, in a form for the table.
func (r *room) firstError(out string, err error) string {
	line := err.Error()
	for _, l := range strings.Split(out, "\n") {
		if strings.Contains(l, "error") || strings.Contains(l, ".idl:") && !strings.Contains(l, "warning") ||
			strings.Contains(l, "undefined reference") || strings.HasPrefix(l, "skep:") || strings.HasPrefix(l, "OmniRpc") {
			line = l
			break
		}
	}
	line = strings.NewReplacer(r.tree+"/", "", r.dir+"/", "", "|", "/").Replace(line)
	if len(line) > 160 {
		line = line[:160] + "..."
	}
	return line
}

func (r *room) checkIDL(name string) string {
	if out, err := r.runCommand(buildTime, r.dir, r.skep, "gen", "-o", r.dir, filepath.Join(r.tree, name)); err != nil {
		return r.firstError(out, err)
	}
	return ""
}

func (r *room) absolutePaths(names []string) []string {
	var list []string
	for _, n := range names {
		list = append(list, filepath.Join(r.tree, n))
	}
	return list
}

// runCase returns three causes of failure; an empty one means success.
func (r *room) runCase(p *program, dir string) (worker, client, result string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err.Error()
	}
	for _, w := range p.workers {
		args := append([]string{"gen", "--build", filepath.Join(r.tree, w.idl)}, r.absolutePaths(w.files)...)
		args = append(args, "--", "-I"+filepath.Join(r.tree, "example/ep"))
		if out, err := r.runCommand(buildTime, dir, r.skep, args...); err != nil {
			worker = r.firstError(out, err)
		}
	}
	args := append([]string{"gen", "--master", filepath.Join(r.tree, p.source)}, r.absolutePaths(p.more)...)
	args = append(append(args, "-o", filepath.Join(dir, "client"), "--"), p.defines...)
	if out, err := r.runCommand(buildTime, dir, r.skep, args...); err != nil {
		client = r.firstError(out, err)
	}
	if worker == "" && client == "" {
		result = r.judgeProgram(p, dir)
	}
	return worker, client, result
}

// judgeProgram runs a program and returns what is wrong with its results.
func (r *room) judgeProgram(p *program, dir string) string {
	for _, f := range p.files {
		if out, err := r.runCommand(buildTime, dir, "cp", filepath.Join(r.tree, f), "."); err != nil {
			return r.firstError(out, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte(p.data), 0o600); err != nil {
		return err.Error()
	}
	out, err := r.runCommand(runTime, dir, r.skep, append([]string{"run", "--", "./client"}, p.args...)...)
	if err != nil {
		return r.firstError(out, err)
	}
	for _, s := range p.need {
		if !strings.Contains(out, s) {
			return fmt.Sprintf("it did not print %q", s)
		}
	}
	for _, s := range p.never {
		if strings.Contains(out, s) {
			return fmt.Sprintf("it printed %q", s)
		}
	}
	return ""
}
