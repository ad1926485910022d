// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"skep/grid/idl"
	"skep/internal/atomicfile"
	"skep/internal/cli"
	"skep/internal/place"
	"skep/internal/uapi"
)

type gen struct {
	out                     string
	cc                      string
	ranks                   bool // MPI jobs run all functions
	global                  bool // the compiler is one of XcalableMP
	manifest, build, master bool

	in   io.Reader // of the compiler, or nil
	made io.Writer // what it writes to standard output, or nil: standard error
}

// idlMax is far above the size of any IDL file that people write.
const idlMax = 1 << 20

// expandedMax limits it together with what it includes.
const expandedMax = 16 << 20

func (g *gen) options(f *cli.Flags) {
	f.StringVar(&g.out, "o", "", "write to `PATH`: a folder for the stub, else the program")
	f.StringVar(&g.cc, "cc", "", "compile with `PROGRAM` (gcc, or what the IDL file names)")
	f.BoolVar(&g.build, "build", false, "make a static worker program of the IDL and C files")
	f.BoolVar(&g.master, "master", false, "compile a master program with the client library")
	f.BoolVar(&g.manifest, "manifest", false, "print what an IDL file or a worker program offers")
}

func (g *gen) run(ctx context.Context, f *cli.Flags, words []string) error {
	modes := 0
	for _, on := range []bool{g.manifest, g.build, g.master} {
		if on {
			modes++
		}
	}
	switch {
	case modes > 1:
		return f.Usagef("--build, --master and --manifest exclude each other")
	case len(words) == 0:
		return f.Usagef("name a file")
	case g.build:
		return g.buildWorker(ctx, f, words)
	case g.master:
		return g.buildClient(ctx, f, words)
	}
	options, rest := expandOptions(words[1:])
	if err := f.RefuseArgs(rest); err != nil {
		return err
	}
	if g.manifest {
		return g.printManifest(ctx, words[0], options)
	}
	return g.writeStub(ctx, words[0], options)
}

// expandOptions returns the options that the C preprocessor takes, and the other words.
func expandOptions(words []string) (options, rest []string) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-I" || w == "-D" || w == "-U":
			options = append(options, words[i:min(i+2, len(words))]...)
			i++
		case len(w) > 2 && w[0] == '-' && strings.ContainsRune("IDU", rune(w[1])):
			options = append(options, w)
		default:
			rest = append(rest, w)
		}
	}
	return options, rest
}

// expand runs the C preprocessor like the compilers of Ninf-G: in the folder of the command,
// with headers in quotes from that of the file.
func (g *gen) expand(ctx context.Context, name string, text []byte, options []string) ([]byte, error) {
	options, _ = expandOptions(options)
	args := append([]string{"-E", "-x", "c", "-iquote", filepath.Dir(name)}, options...)
	var out bytes.Buffer
	g.in, g.made = bytes.NewReader(text), &out
	err := g.runCompiler(ctx, append(args, "-"), defaultCompiler)
	g.in, g.made = nil, nil
	if err == nil && out.Len() > expandedMax {
		err = fmt.Errorf("gen: %s has more than %d bytes with what it includes", name, expandedMax)
	}
	return out.Bytes(), err
}

// readIDL returns the errors of the file unchanged. They begin with its name, like those
// of compilers.
//
// The options are those of the command line for the compiler.
func (g *gen) readIDL(ctx context.Context, name string, options []string) (*idl.Module, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, idlMax+1))
	if err != nil {
		return nil, fmt.Errorf("gen: %w", err)
	}
	if len(text) > idlMax {
		return nil, fmt.Errorf("gen: %s has more than %d bytes: is it an IDL file?", name, idlMax)
	}
	way := idl.Way{AllRanks: g.ranks, Expand: func(text []byte) ([]byte, error) {
		return g.expand(ctx, name, text, options)
	}}
	m, err := way.Parse(name, text)
	var problems *idl.Problems
	if errors.As(err, &problems) {
		fmt.Fprintln(os.Stderr, problems)
		return nil, cli.Exit(cli.Failed)
	}
	return m, err
}

func (g *gen) printManifest(ctx context.Context, name string, options []string) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	defer file.Close()
	var magic [4]byte
	if _, err := io.ReadFull(file, magic[:]); err == nil && string(magic[:]) == "\x7fELF" {
		manifest, _, err := uapi.ReadManifest(file)
		if err != nil {
			return fmt.Errorf("gen: %s: %w", name, err)
		}
		_, err = fmt.Print(idl.DumpManifest(manifest))
		return err
	}
	m, err := g.readIDL(ctx, name, options)
	if err != nil {
		return err
	}
	_, err = fmt.Print(idl.DumpManifest(m.Manifest()))
	return err
}

func (g *gen) writeStub(ctx context.Context, name string, options []string) error {
	m, err := g.readIDL(ctx, name, options)
	if err != nil {
		return err
	}
	path := filepath.Join(g.out, m.Name+"_stub.c")
	text, err := m.Stub(path)
	if err != nil {
		return fmt.Errorf("gen: %s: %w", name, err)
	}
	if g.out != "" {
		if err := os.MkdirAll(g.out, 0o777); err != nil {
			return fmt.Errorf("gen: %w", err)
		}
	}
	if err := atomicfile.Write(path, text, 0o666); err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

func (g *gen) buildClient(ctx context.Context, f *cli.Flags, words []string) error {
	parts, err := findParts("libskeprpc.a")
	if err != nil {
		return err
	}
	out := g.out
	if out == "" {
		if out = words[0]; !strings.HasSuffix(out, ".c") && !isFortran(out) {
			return f.Usagef("name the program with -o")
		}
		out = strings.TrimSuffix(out, filepath.Ext(out))
	}
	dir, err := os.MkdirTemp("", "skep-gen-")
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "program")
	args := []string{"-O2", "-g", "-pthread", "-I" + parts.include, "-o", made}
	compiler := defaultCompiler
	if slices.ContainsFunc(words, isFortran) {
		compiler = fortranCompiler
		args = append(append(args, fortranOptions...), "-J"+dir, filepath.Join(parts.include, "skep.f90"))
	}
	args = append(args, words...)
	// The GridRPC library is taken only by programs that call it.
	gridrpc := filepath.Join(filepath.Dir(parts.library), "libgridrpc.a")
	if _, err := os.Stat(gridrpc); err == nil {
		args = append(args, gridrpc)
	}
	if err := g.runCompiler(ctx, append(args, parts.library, "-lm"), compiler); err != nil {
		return err
	}
	return installProgram(made, out)
}

const fortranCompiler = "gfortran"

// fortranOptions let programs pass arguments of different types to one subroutine, as
// those of OmniRPC do.
var fortranOptions = []string{"-std=legacy"}

func isFortran(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".f", ".for", ".f90", ".f95", ".f03", ".f08":
		return true
	}
	return false
}

// runCompiler runs the first compiler that is named, by --cc or else in names, and passes
// its errors on.
func (g *gen) runCompiler(ctx context.Context, args []string, names ...string) error {
	words := strings.Fields(cmp.Or(append([]string{g.cc}, names...)...))
	if len(words) == 0 {
		return cli.Errorf(cli.Usage, "gen: --cc names no compiler")
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = g.in, os.Stderr, os.Stderr
	if g.made != nil {
		cmd.Stdout = g.made
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("gen: %s found errors: nothing was written", words[0])
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("gen: there is no compiler %s: install it, or name one with --cc", words[0])
	case err != nil:
		return fmt.Errorf("gen: %s can't be started: %w", words[0], err)
	}
	return nil
}

// installProgram replaces a program by a rename, so that the file of a running worker is
// not written to.
func installProgram(made, out string) error {
	text, err := os.ReadFile(made)
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		return cli.Errorf(cli.Usage, "gen: -o %s is a folder: name the program", out)
	}
	info, err := os.Stat(made) // its mode follows the user's umask
	if err == nil {
		err = atomicfile.Write(out, text, info.Mode().Perm())
	}
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

// parts are the files that programs are compiled with.
type parts struct {
	include, library string
	source           string // folder of the IDL file
}

// findParts finds the library and its headers: lib and include of an
// installation, or build/lib and grid/include of the source tree.
func findParts(library string) (parts, error) {
	path, err := place.FindFile(library)
	if err != nil {
		return parts{}, fmt.Errorf("gen: %w (Debian: apt install libskep-dev)", err)
	}
	up := filepath.Dir(filepath.Dir(path))
	for _, dir := range []string{filepath.Join(up, "include"), filepath.Join(filepath.Dir(up), "grid", "include")} {
		if _, err := os.Stat(filepath.Join(dir, "OmniRpc.h")); err == nil {
			return parts{library: path, include: dir}, nil
		}
	}
	return parts{}, fmt.Errorf("gen: OmniRpc.h is neither in %s nor in the source tree around it", filepath.Join(up, "include"))
}
