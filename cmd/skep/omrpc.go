// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/cli"
)

// The tools that users of OmniRPC type are other names of skep: links to it.

var tools = map[string]func(ctx context.Context, args []string) error{
	"omrpc-cc": func(ctx context.Context, args []string) error { return runDriver(ctx, &driver{name: "omrpc-cc"}, args) },
	"omrpc-cc-mpi": func(ctx context.Context, args []string) error {
		return runDriver(ctx, &driver{name: "omrpc-cc-mpi", ranks: true}, args)
	},
	"omrpc-cc-xmp": func(ctx context.Context, args []string) error {
		return runDriver(ctx, &driver{name: "omrpc-cc-xmp", ranks: true, global: true}, args)
	},
	"omrpc-fc": func(ctx context.Context, args []string) error {
		return runDriver(ctx, &driver{name: "omrpc-fc", fortran: true}, args)
	},
	"omrpc-gen":      func(ctx context.Context, args []string) error { return writeToolStub(ctx, args) },
	"omrpc-register": func(_ context.Context, args []string) error { return runRegister(args) },
	"omrpc-register-yml": func(_ context.Context, _ []string) error {
		return cli.Errorf(cli.Refused, "omrpc-register-yml: skep reads no applications of YML: build the interface file of each component with omrpc-cc-mpi or omrpc-cc-xmp, and register the programs with omrpc-register -register")
	},
	"tlogview":     viewLog,
	"OmrpcMonitor": viewNodes,
}

// findTool returns the tool as which skep was started, or nil.
func findTool(program string) func(ctx context.Context, args []string) error {
	name := filepath.Base(program)
	tool := tools[name]
	if tool == nil {
		return nil
	}
	return func(ctx context.Context, args []string) error {
		if slices.Equal(args, []string{"--version"}) {
			_, err := fmt.Printf("%s %s\n", name, version)
			return err
		}
		return tool(ctx, args)
	}
}

// viewLog is tlogview, which drew the events of a log. A hub's are on its page.
func viewLog(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return cli.Errorf(cli.Refused, "tlogview: skep writes no logs for tlogview, so %s is not read: tlogview without a name serves the page of the hub, and skep ledger --json prints the events of each call", args[0])
	}
	return dispatch(ctx, []string{"page"})
}

// viewNodes is OmrpcMonitor, which drew the load of each host.
func viewNodes(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return cli.Errorf(cli.Usage, "OmrpcMonitor: it takes no words, and does what skep top does, which has options")
	}
	return dispatch(ctx, []string{"top"})
}

// A driver is one run of omrpc-cc, omrpc-cc-mpi, omrpc-cc-xmp or omrpc-fc.
type driver struct {
	name        string
	fortran     bool
	ranks       bool // MPI jobs run all functions; masters may use MPI
	global      bool // programs are in XcalableMP
	idl         string
	files       []string // sources, objects, archives
	options     []string
	out         string
	compiler    string
	compileOnly bool
	show        bool
}

const driverHelp = `%[1]s compiles programs of OmniRPC with skep gen, which it is another name of.
    %[1]s FILE.idl FILES     the worker program FILE.rex
    %[1]s PROGRAM FILES      a master, a.out
    %[1]s -c FILES           objects; that of FILE.idl is FILE.rex.o
    -o FILE   write FILE        -show   print what would be done
    -linker PROGRAM, -fc PROGRAM        compile and link with PROGRAM
All other options go to the compiler.
`

func runDriver(ctx context.Context, d *driver, args []string) error {
	if err := d.parse(args); err != nil {
		if errors.Is(err, errHelp) {
			fmt.Printf(driverHelp, d.name)
			return nil
		}
		return err
	}
	if d.show {
		fmt.Println(d.describe())
		return nil
	}
	if err := d.findGlobal(); err != nil {
		return err
	}
	switch {
	case d.compileOnly:
		return d.compile(ctx)
	case d.idl != "":
		return d.buildWorker(ctx)
	case slices.ContainsFunc(d.files, func(f string) bool { return strings.HasSuffix(f, ".rex.o") }):
		return d.linkWorker(ctx)
	}
	return d.buildMaster(ctx)
}

const globalCompiler = "xmpcc"

// findGlobal names the compiler of XcalableMP, which skep does not have.
func (d *driver) findGlobal() error {
	if !d.global || d.compiler != "" {
		return nil
	}
	path, err := exec.LookPath(globalCompiler)
	if err != nil {
		return cli.Errorf(cli.Refused, "%s: no compiler of XcalableMP: install Omni XcalableMP so that %s is in PATH, or name a compiler with -linker; for C with MPI use omrpc-cc-mpi", d.name, globalCompiler)
	}
	d.compiler = path
	return nil
}

var errHelp = errors.New("help")

func (d *driver) usagef(format string, args ...any) error {
	return cli.Errorf(cli.Usage, "%s: %s; %s -help lists the options", d.name, fmt.Sprintf(format, args...), d.name)
}

func (d *driver) parse(args []string) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-o" || a == "-linker" || a == "-fc":
			if i++; i == len(args) {
				return d.usagef("%s needs an argument", a)
			}
			if a == "-o" {
				d.out = args[i]
			} else {
				d.compiler = args[i]
			}
		case a == "-c":
			d.compileOnly = true
		case a == "-show":
			d.show = true
		case a == "-help" || a == "--help":
			return errHelp
		case a == "-E" || a == "-M" || a == "-echo":
			return d.usagef("the option %s is not supported", a)
		case strings.HasPrefix(a, "-l"): // its place among the files counts
			d.files = append(d.files, a)
		case strings.HasPrefix(a, "-"):
			d.options = append(d.options, a)
		case strings.HasSuffix(a, ".idl") && d.idl != "":
			return d.usagef("one interface file makes one program: %s or %s", d.idl, a)
		case strings.HasSuffix(a, ".idl"):
			d.idl = a
		default:
			d.files = append(d.files, a)
		}
	}
	if d.idl == "" && len(d.files) == 0 {
		return d.usagef("name a file")
	}
	return nil
}

// base returns the interface file's name without folder and suffix.
func (d *driver) base() string { return strings.TrimSuffix(filepath.Base(d.idl), ".idl") }

func (d *driver) describe() string {
	words := []string{"skep", "gen", "--master"}
	out := d.out
	if d.idl != "" {
		words = []string{"skep", "gen", "--build", d.idl}
	}
	if out == "" {
		out = d.defaultOut()
	}
	words = append(append(words, "-o", out), d.files...)
	if len(d.options) > 0 {
		words = append(append(words, "--"), d.options...)
	}
	return strings.Join(words, " ")
}

func (d *driver) defaultOut() string {
	if d.idl != "" {
		return d.base() + ".rex"
	}
	return "a.out"
}

func (d *driver) gen() (*gen, *cli.Flags) {
	g := &gen{out: d.out, cc: d.compiler, ranks: d.ranks, global: d.global}
	if g.out == "" {
		g.out = d.defaultOut()
	}
	return g, cli.NewFlags(d.name, d.name)
}

// fortranLibraries are what Fortran objects need when a C compiler links them.
var fortranLibraries = []string{"-lgfortran", "-lquadmath", "-lm"}

func (d *driver) buildWorker(ctx context.Context) error {
	g, f := d.gen()
	words := slices.Concat([]string{d.idl}, d.options, d.files)
	if d.fortran && !slices.ContainsFunc(d.files, isFortran) {
		words = append(words, fortranLibraries...)
	}
	return g.buildWorker(ctx, f, words)
}

func (d *driver) buildMaster(ctx context.Context) error {
	g, f := d.gen()
	if g.cc == "" && d.fortran {
		g.cc = fortranCompiler
	}
	options := d.options
	if d.ranks {
		g.cc = cmp.Or(g.cc, ranksCompiler(false))
		options = append(options, "-DUSE_MPI")
	}
	return g.buildClient(ctx, f, slices.Concat(d.files, options))
}

// linkWorker links objects of earlier runs.
func (d *driver) linkWorker(ctx context.Context) error {
	parts, err := findParts("libskepworker.a")
	if err != nil {
		return err
	}
	g, _ := d.gen()
	if d.ranks {
		return d.linkRanks(ctx, g, parts)
	}
	args := slices.Concat([]string{"-static", "-pthread", "-o", g.out}, d.options, d.files, []string{parts.library})
	if d.fortran {
		args = append(args, fortranLibraries...)
	}
	return g.runCompiler(ctx, append(args, "-lm"), defaultCompiler)
}

func (d *driver) linkRanks(ctx context.Context, g *gen, parts parts) error {
	dir, err := os.MkdirTemp("", "skep-gen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "program")
	library, err := g.rankLibrary(ctx, parts.library, dir)
	if err != nil {
		return err
	}
	args := slices.Concat([]string{"-no-pie", "-pthread", "-o", made}, d.options, d.files, []string{library, "-lm"})
	if err := g.runCompiler(ctx, args, ranksCompiler(false)); err != nil {
		return err
	}
	if made, err = buildFront(ctx, parts, made); err != nil {
		return fmt.Errorf("%s: %s: %w", d.name, g.out, err)
	}
	return installProgram(made, g.out)
}

// compile makes an object of each source.
func (d *driver) compile(ctx context.Context) error {
	parts, err := findParts("libskepworker.a")
	if err != nil {
		return err
	}
	sources := d.files
	if d.idl != "" {
		sources = append(sources, d.idl)
	}
	if d.out != "" && len(sources) > 1 {
		return d.usagef("-o with -c names the object of one file")
	}
	for _, source := range sources {
		if err := d.compileFile(ctx, parts, source); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) compileFile(ctx context.Context, parts parts, source string) error {
	g := &gen{cc: d.compiler, ranks: d.ranks}
	base := filepath.Base(source)
	out := strings.TrimSuffix(base, filepath.Ext(base)) + ".o"
	args := slices.Concat([]string{"-O2", "-g", "-pthread", "-c", "-I" + parts.include}, d.options)
	compiler := defaultCompiler
	if d.ranks {
		compiler = ranksCompiler(false)
		args = append(args, "-DUSE_MPI")
	}
	switch {
	case source == d.idl:
		dir, err := os.MkdirTemp("", "skep-gen-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		stub := filepath.Join(dir, d.base()+".rex.c")
		if err := g.writeStubTo(ctx, source, stub, d.options); err != nil {
			return err
		}
		args = append(args, "-Wno-error=implicit-function-declaration", "-I"+filepath.Dir(source))
		source, out = stub, d.base()+".rex.o"
	case isFortran(source):
		compiler = fortranCompiler
		if d.ranks {
			compiler = ranksCompiler(true)
		}
		args = append(args, fortranOptions...)
	}
	if d.out != "" {
		out = d.out
	}
	return g.runCompiler(ctx, append(args, "-o", out, source), compiler)
}

func (g *gen) writeStubTo(ctx context.Context, name, path string, options []string) error {
	m, err := g.readIDL(ctx, name, options)
	if err != nil {
		return err
	}
	text, err := m.Stub(path)
	if err == nil {
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		return fmt.Errorf("gen: %w", err)
	}
	return nil
}

// writeToolStub is omrpc-gen.
func writeToolStub(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 || strings.HasPrefix(args[0], "-") {
		return cli.Errorf(cli.Usage, "omrpc-gen: write omrpc-gen FILE.idl [STUB.c]")
	}
	out := strings.TrimSuffix(filepath.Base(args[0]), ".idl") + ".rex.c"
	if len(args) == 2 {
		out = args[1]
	}
	return (&gen{}).writeStubTo(ctx, args[0], out, nil)
}
