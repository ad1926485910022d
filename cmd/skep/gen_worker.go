// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"skep/grid/idl"
	"skep/internal/cli"
	"skep/internal/uapi"
)

const defaultCompiler = "gcc"

// split separates the one IDL file from the other words.
func split(f *cli.Flags, words []string) (name string, rest []string, err error) {
	for _, w := range words {
		switch {
		case !strings.HasSuffix(w, ".idl"):
			rest = append(rest, w)
		case name != "":
			return "", nil, f.Usagef("one IDL file makes one program: %s or %s", name, w)
		default:
			name = w
		}
	}
	if name == "" {
		return "", nil, f.Usagef("--build needs a file that ends in .idl")
	}
	return name, rest, nil
}

func (g *gen) buildWorker(ctx context.Context, f *cli.Flags, words []string) error {
	name, rest, err := split(f, words)
	if err != nil {
		return err
	}
	m, err := g.readIDL(ctx, name, rest)
	if err != nil {
		return err
	}
	parts, err := findParts("libskepworker.a")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "skep-gen-")
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	defer os.RemoveAll(dir)
	stub := filepath.Join(dir, m.Name+"_stub.c")
	text, err := m.Stub(stub)
	if err == nil {
		err = os.WriteFile(stub, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	out := g.out
	if out == "" {
		out = m.Name + ".rex"
	}
	made := filepath.Join(dir, "program")
	parts.source = filepath.Dir(name)
	rest = append(rest, requiredFiles(m, name, rest)...)
	linked := parts
	if linked.library, err = g.rankLibrary(ctx, parts.library, dir); err != nil {
		return err
	}
	if err := g.compileWorker(ctx, m, linked, stub, made, rest); err != nil {
		return err
	}
	if m.HasRanks {
		if made, err = buildFront(ctx, parts, made); err != nil {
			return fmt.Errorf("gen: %s: %w", out, err)
		}
	}
	if err := checkWorker(made, m); err != nil {
		return fmt.Errorf("gen: %s: %w", out, err)
	}
	return installProgram(made, out)
}

// compileWorker compiles and links in one step, or in two if the IDL file names a linker.
func (g *gen) compileWorker(ctx context.Context, m *idl.Module, parts parts, stub, made string, rest []string) error {
	// OmniRPC's compilers accepted calls of undeclared functions; today's
	// compilers would refuse the file.
	args := append([]string{"-O2", "-g", "-Wno-error=implicit-function-declaration", "-pthread",
		"-I" + parts.include, "-I" + parts.source}, m.Options...)
	link := append([]string{"-static"}, args...)
	compiler := defaultCompiler
	last := []string{parts.library}
	switch fortran := slices.ContainsFunc(rest, isFortran); {
	case m.HasRanks:
		link[0], compiler = "-no-pie", ranksCompiler(fortran)
	case fortran:
		last = append(last, "-lgfortran", "-lquadmath")
	}
	last = append(last, "-lm")
	if m.Linker != "" {
		object := strings.TrimSuffix(stub, ".c") + ".o"
		if err := g.runCompiler(ctx, append(args, "-c", "-o", object, stub), m.Compiler, compiler); err != nil {
			return err
		}
		all := append(append(append(link, "-o", made, object), rest...), last...)
		return g.runCompiler(ctx, all, m.Linker)
	}
	all := append(append(append(link, "-o", made, stub), rest...), last...)
	return g.runCompiler(ctx, all, m.Compiler, compiler)
}

// rankLibrary returns the library that is linked into programs of ranks. A compiler of
// XcalableMP gives main another name, and its own library, which comes last, has the main that
// calls it. So ours must have none.
func (g *gen) rankLibrary(ctx context.Context, library, dir string) (string, error) {
	if !g.global {
		return library, nil
	}
	text, err := os.ReadFile(library)
	if err != nil {
		return "", fmt.Errorf("gen: %w", err)
	}
	without := filepath.Join(dir, filepath.Base(library))
	if err := os.WriteFile(without, text, 0o600); err != nil {
		return "", fmt.Errorf("gen: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "ar", "d", without, "main.o").CombinedOutput(); err != nil {
		return "", fmt.Errorf("gen: ar d %s main.o: %w: %s", without, err, out)
	}
	return without, nil
}

// ranksCompiler returns the MPI's own compiler for programs of ranks.
func ranksCompiler(fortran bool) string {
	if fortran {
		return "mpifort"
	}
	return "mpicc"
}

// buildFront puts the program of the ranks into a static worker program beside it, and
// returns the path of that.
func buildFront(ctx context.Context, parts parts, ranks string) (string, error) {
	file, err := os.Open(ranks)
	if err != nil {
		return "", err
	}
	defer file.Close()
	m, manifest, err := uapi.ReadRanksManifest(file)
	if err != nil {
		return "", err
	}
	source, made := ranks+"-front.c", ranks+"-front"
	if err := os.WriteFile(source, idl.FrontStub(manifest, m.Limits, ranks), 0o600); err != nil {
		return "", err
	}
	args := []string{"-O2", "-static", "-pthread", "-I" + parts.include, "-o", made, source, parts.library}
	return made, (&gen{}).runCompiler(ctx, args, defaultCompiler)
}

// requiredFiles returns the files of Required and Library that are not on the command
// line, nor their sources. A missing file is omitted with a warning; if it is needed, the
// linker reports what is undefined.
func requiredFiles(m *idl.Module, name string, given []string) (list []string) {
	seen := map[string]bool{}
	for _, g := range given {
		seen[filepath.Clean(g)], seen[stem(g)] = true, true
	}
	for _, f := range m.Files {
		if strings.HasPrefix(f, "-") {
			list = append(list, f)
			continue
		}
		key := stem(f)
		if f != filepath.Base(f) { // a path names one file
			key = filepath.Clean(f)
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		path := f
		if _, err := os.Stat(path); err != nil && !filepath.IsAbs(f) {
			path = filepath.Join(filepath.Dir(name), f)
		}
		if _, err := os.Stat(path); err != nil {
			fmt.Fprintf(os.Stderr, "gen: warning: %s requires %s, which is not there: it is left out\n", name, f)
			continue
		}
		list = append(list, path)
	}
	return list
}

// stem returns a path without its suffix, which is the same for a source and its object.
func stem(path string) string {
	base := filepath.Base(path)
	switch ext := filepath.Ext(base); ext {
	case ".c", ".o", ".f", ".f90", ".cc", ".cpp", ".s", ".S":
		return strings.TrimSuffix(base, ext)
	}
	return base
}

// checkWorker checks the program like the hub.
func checkWorker(path string, m *idl.Module) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	has, got, err := uapi.ReadManifest(file)
	if err != nil {
		return err
	}
	want, err := m.Manifest().Encode()
	switch {
	case err != nil:
		return err
	case !bytes.Equal(got, want):
		return errors.New("two modules are linked into it: leave one stub out")
	case has.Limits != m.Manifest().Limits:
		return errors.New("the limits in it are not those of the interface file: leave out what has a section " + uapi.LimitsSection)
	}
	return nil
}
