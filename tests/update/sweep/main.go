// SPDX-License-Identifier: MIT

//go:build linux

// Sweep tries the builder of kernel updates on many fixes of a distribution.
//
// usage: sweep list OLD NEW          the cases between two source trees
//
//	sweep draw SEED N NEW DONE  a list for run: of the cases of all folders, in the
//	                                order of sha256(SEED + first source), up to the
//	                                Nth that Debian compiles, without those of the
//	                                list DONE
//
//	sweep run LIST NEW OUT [N|KIND...]   patches and packages of these cases in
//	                                OUT, and what comes of each, a line each
//	                                with its processor time; KIND is image or
//	                                module; all that are compiled if neither is given
//
//	sweep gate LIST            how many functions of the image's first files
//	                                of the cases equal the shipped image
//
// draw, run and gate build for the version that BASE names, by default 6.1.176-1. NEW is the
// tree of the later one, or its version: then it is fetched.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "list":
		err = printList(os.Args[2], os.Args[3])
	case len(os.Args) == 6 && os.Args[1] == "draw":
		err = printDraw(ctx, os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) >= 5 && os.Args[1] == "run":
		err = runSweep(ctx, os.Args[2], os.Args[3], os.Args[4], os.Args[5:])
	case len(os.Args) == 3 && os.Args[1] == "gate":
		err = checkGate(ctx, os.Args[2])
	default:
		err = errors.New("usage: sweep list OLD NEW | draw SEED N NEW DONE | run LIST NEW OUT [N|KIND...] | gate LIST")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

func printList(old, new string) error {
	all, err := listFixes(old, new, folders)
	for i, x := range all {
		fmt.Println(i+1, x.hash, strings.Join(x.files, " "))
	}
	return err
}

// checkGate compares the first file of each case of the image, unpatched, with the
// shipped image: all are the distribution's own, so each difference is an error.
func checkGate(ctx context.Context, listFile string) error {
	text, err := os.ReadFile(listFile)
	if err != nil {
		return err
	}
	var files []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] != "#" && f[2] == "image" {
			files = append(files, f[3])
		}
	}
	all, differ := 0, 0
	err = update.CheckOriginals(ctx, baseName(), files, os.Stderr, func(path string, equal int, err error) {
		all += equal
		if err != nil {
			differ++
			fmt.Printf("%s: %v\n", path, err)
			return
		}
		fmt.Printf("%s: %d functions are equal\n", path, equal)
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d functions of %d files of %s equal the image\n", all, len(files)-differ, baseName())
	if differ > 0 {
		return fmt.Errorf("%d files were refused wrongly", differ)
	}
	return nil
}

// isPicked reports whether run builds a line of a list: its number or its kind was
// given, or it is compiled and none was.
func isPicked(f, picks []string) bool {
	if len(f) < 4 || f[0] == "#" || f[2] == kindNothing {
		return false
	}
	return len(picks) == 0 || slices.Contains(picks, f[0]) || slices.Contains(picks, f[2])
}

func runSweep(ctx context.Context, listFile, newer, out string, picks []string) error {
	text, err := os.ReadFile(listFile)
	if err != nil {
		return err
	}
	t, err := openTrees(ctx, newer)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if !isPicked(f, picks) {
			continue
		}
		begun := processorTime()
		verdict, err := t.tryCase(ctx, out, f[0], f[3:])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			verdict = "refused: " + err.Error()
		}
		fmt.Printf("%s %s %.0fs %s\n", f[0], f[3], (processorTime() - begun).Seconds(), strings.ReplaceAll(verdict, "\n", " | "))
	}
	return nil
}

// processorTime is what this program and those that it ran have used.
func processorTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// rounds bounds how often a case is widened.
const rounds = 8

// tryCase makes the patch of one case and builds its package. A case takes along
// what it does not compile or link without.
func (t *trees) tryCase(ctx context.Context, out, number string, files []string) (string, error) {
	listed := len(files)
	for range rounds {
		verdict, err := t.build(ctx, out, number, files)
		more, wide := t.findMissing(files, err)
		if wide != nil {
			return "", wide
		}
		if len(more) > 0 {
			fmt.Fprintf(os.Stderr, "%s is not whole without %s\n", number, strings.Join(more, " "))
			files = append(slices.Clone(files), more...)
			continue
		}
		if len(files) > listed {
			verdict += " (with " + strings.Join(files[listed:], " ") + ")"
			if err != nil {
				err = fmt.Errorf("with %s: %w", strings.Join(files[listed:], " "), err)
			}
		}
		return verdict, err
	}
	return "", fmt.Errorf("with %s it still does not compile", strings.Join(files[listed:], " "))
}

func (t *trees) build(ctx context.Context, out, number string, files []string) (string, error) {
	patch, err := makeDiff(ctx, t.old.Dir, t.new.Dir, files)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(out, number+".patch"), patch, 0o644); err != nil {
		return "", err
	}
	file := filepath.Join(out, number+pack.Suffix)
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return "", err
	}
	made, err := update.Build(ctx, update.Plan{Name: "fix_" + number, Patch: patch, Kernels: []string{baseName()}, Says: os.Stderr})
	if err != nil {
		return "", err
	}
	if err := pack.WriteFile(file, made); err != nil {
		return "", err
	}
	var names []string
	for _, f := range made.Kernels[0].Functions {
		names = append(names, f.Name)
	}
	return fmt.Sprintf("built, %s: %s", made.Class, strings.Join(names, " ")), nil
}

func baseName() string {
	if v := os.Getenv("BASE"); v != "" {
		return v
	}
	return "6.1.176-1"
}

// makeDiff makes the patch of some files, as git writes it.
func makeDiff(ctx context.Context, old, new string, files []string) ([]byte, error) {
	var all []byte
	for _, f := range files {
		cmd := exec.CommandContext(ctx, "diff", "-u", "--label", "a/"+f, "--label", "b/"+f, filepath.Join(old, f), filepath.Join(new, f))
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			return nil, fmt.Errorf("diff of %s: %w", f, err)
		}
		all = append(all, out...)
	}
	return all, nil
}
