// SPDX-License-Identifier: MIT

// Command run measures bee, the grid, O2G and DynamOS, and their peers, on this machine. It
// prints a table for people and writes "result" lines for programs to
// build/bench/results/NAME.results. It has no pass criteria.
//
//	run page NAME COMMAND  runs a shell command, writes docs/results/bench/NAME.md and NAME.svg
//	run call      one system call: native, bee, bee.exe, Win32 in the same Wine
//	run entry     from start to the guest's first instruction, cold and warm
//	run compute   work with few calls: native, bee, bee.exe
//	run processes fork and execve: native, bee, bee under Wine
//	run owner     what the owner of a PC notices of work: Skep's, and at nice 19 and 0
//	run snapshot  a running program saved and restored: bee, CRIU
//	run rpc       round trip of an empty remote call, beside raw TLS
//	run argument  a large argument of a remote call, beside raw TLS
//	run masters   small calls of 16 masters that share two slots, beside one master's
//	run mpi       MPI programs over O2G, the MPI's own TCP and UCX
//	run mpi_delay the same with 20 ms between two network namespaces
//	run o2g_instructions  a message at a receiver with many connections, counted
//	run o2g-kernel [count] [nodes] [pair]  the user and the kernel engine in guests
//	run update-cycle [kernel]  how long a machine takes to load an update, in a guest
//	run dynamos [kernel [way...]]  what it costs to count the calls of a kernel's function
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"skep/tests/wine/wineserver"
)

type bench struct {
	build, prefix, work string
	prefixMPI           string
	rounds              int
	results             *os.File // lines for machines
	unwritten           error    // why a line could not be written
}

func main() {
	b := bench{}
	flag.StringVar(&b.build, "build", "build", "where everything is built")
	flag.StringVar(&b.prefix, "prefix", "build/wine", "WINEPREFIX")
	flag.StringVar(&b.prefixMPI, "mpi", "build/mpi/mpich", "prefix of an MPICH with libfabric and UCX")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds, of which the median counts")
	flag.Parse()
	b.build, _ = filepath.Abs(b.build)
	b.prefix, _ = filepath.Abs(b.prefix)
	b.prefixMPI, _ = filepath.Abs(b.prefixMPI)
	var err error
	if flag.Arg(0) == "page" {
		err = b.writePage(flag.Args()[1:])
	} else if flag.Arg(0) == "snapshot-here" { // perhaps in a guest, which writes no results
		err = b.snapshotHere()
	} else {
		err = b.run(flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) writePage(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: run page NAME COMMAND")
	}
	m := pageMaker{lines: b.linesFolder(), folder: "docs/results/bench", out: os.Stdout, now: time.Now()}
	return m.make(args[0], args[1])
}

// linesFolder holds the lines for programs of the last bench that make ran.
func (b *bench) linesFolder() string { return filepath.Join(b.build, "bench", "results") }

func (b *bench) run(what string) error {
	steps := map[string]func() error{"call": b.call, "entry": b.benchEntry, "compute": b.benchCompute, "processes": b.benchProcesses, "owner": b.benchOwner, "snapshot": b.benchSnapshot,
		"rpc": b.rpcCall, "argument": b.rpcArgument, "masters": b.rpcMasters, "mpi": b.benchMPI,
		"mpi_delay": b.mpiDelay, "o2g_instructions": b.o2gInstructions, "o2g-kernel": b.o2gKernel, "dynamos": b.benchDynamos, "update-cycle": b.benchCycle}
	step := steps[what]
	if step == nil {
		return fmt.Errorf("no bench %q; there are call, entry, compute, processes, owner, snapshot, rpc, argument, masters, mpi, mpi_delay, o2g_instructions, o2g-kernel, update-cycle and dynamos", what)
	}
	b.work = filepath.Join(b.build, "bench", "work")
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	return b.runRecorded(what, step)
}

// runRecorded runs a bench with a new file for its results. If the bench fails, the results
// before the failure stay.
func (b *bench) runRecorded(what string, step func() error) (err error) {
	if err := os.MkdirAll(b.linesFolder(), 0o755); err != nil {
		return err
	}
	if b.results, err = os.Create(filepath.Join(b.linesFolder(), what+".results")); err != nil {
		return err
	}
	return errors.Join(step(), b.unwritten, b.results.Close())
}

// writeRecord writes a line for machines.
func (b *bench) writeRecord(format string, args ...any) {
	if _, err := fmt.Fprintf(b.results, format+"\n", args...); err != nil && b.unwritten == nil {
		b.unwritten = err
	}
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

func readLoad() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// A side is one way to run a program.
type side struct {
	name  string
	words []string
	wine  bool
}

func (b *bench) listSides() []side {
	return []side{
		{name: "native"},
		{name: "linux", words: []string{b.binPath("bee")}},
		{name: "wine", words: []string{"wine", b.binPath("bee.exe")}, wine: true},
	}
}

func (b *bench) binPath(name string) string { return filepath.Join(b.build, "bin", name) }

func (b *bench) makeCommand(s side, argv ...string) *exec.Cmd {
	argv = append(append([]string{}, s.words...), argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = b.work
	cmd.Stderr = os.Stderr
	cmd.Env = os.Environ()
	if s.wine {
		cmd.Env = append(cmd.Env, wineserver.Env(b.prefix)...)
	}
	return cmd
}

// figures maps "operation" or "operation state" to nanoseconds.
type figures map[string]float64

func parseFigures(out []byte) (figures, []string) {
	f := figures{}
	var order []string
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		var ns float64
		if _, err := fmt.Sscan(words[len(words)-1], &ns); err == nil {
			key := strings.Join(words[:len(words)-1], " ")
			f[key] = ns
			order = append(order, key)
		}
	}
	return f, order
}

// runMedians runs the sides in turn, `rounds` times each, so that a slow moment of the
// machine affects all of them. It returns the median per operation.
func (b *bench) runMedians(sides []side, program func(side) []string) (map[string]figures, []string, error) {
	all := map[string]map[string][]float64{}
	var order []string
	for range b.rounds {
		for _, s := range sides {
			out, err := b.makeCommand(s, program(s)...).Output()
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", s.name, err)
			}
			f, names := parseFigures(out)
			if len(f) == 0 {
				return nil, nil, fmt.Errorf("%s: no figures", s.name)
			}
			if order == nil {
				order = names
			}
			if all[s.name] == nil {
				all[s.name] = map[string][]float64{}
			}
			for key, ns := range f {
				all[s.name][key] = append(all[s.name][key], ns)
			}
		}
	}
	result := map[string]figures{}
	for name, table := range all {
		result[name] = figures{}
		for key, list := range table {
			result[name][key] = medianOf(list)
		}
	}
	return result, order, nil
}

func medianOf(list []float64) float64 {
	sort.Float64s(list)
	if len(list) == 0 {
		return 0
	}
	return list[len(list)/2]
}
