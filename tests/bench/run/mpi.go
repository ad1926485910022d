// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A network is one way to carry the messages of the same program.
type network struct {
	name string
	args []string // of skep mpirun; none: the MPI's launcher itself
	env  []string
}

const asyncProgress = "MPIR_CVAR_ASYNC_PROGRESS=1"

// networks are measured in turn, O2G first.
func networks() []network {
	ucx := []string{"MPIR_CVAR_CH4_NETMOD=ucx", "UCX_TLS=tcp,self", "MPIR_CVAR_NOLOCAL=1"}
	return []network{
		{name: "o2g", args: []string{"--no-shm"}},
		{name: "tcp", args: []string{"--tcp", "--no-shm"}},
		{name: "tcp+thread", args: []string{"--tcp", "--no-shm"}, env: []string{asyncProgress}},
		{name: "ucx", env: ucx},
		{name: "ucx+thread", env: append([]string{asyncProgress}, ucx...)},
	}
}

// mpiWords are the questions for 2 ranks; for more, those that use them all.
var (
	mpiWords     = []string{"latency", "bandwidth", "held", "overlap", "mixed", "patterns", "sort", "wait"}
	mpiManyWords = []string{"patterns", "sort"}
)

// mpi measures MPICH's programs over O2G, its own TCP and UCX, interleaved.
func (b *bench) mpi() error {
	for _, ranks := range []int{2, 4} {
		words := mpiWords
		if ranks > 2 {
			words = mpiManyWords
		}
		fmt.Printf("\n%d ranks, no shared memory, median of %d rounds\n", ranks, b.rounds)
		if err := b.mpiRanks(ranks, words); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) mpiRanks(ranks int, words []string) error {
	all := map[string]map[string][]float64{}
	units := map[string]string{}
	var order []string
	for range b.rounds {
		for _, n := range networks() {
			out, err := b.mpiRun(n, ranks, words)
			if err != nil {
				fmt.Printf("%s: %v\n", n.name, err)
				continue // a peer that fails is a result as well
			}
			for line := range strings.Lines(string(out)) {
				f := strings.Fields(line)
				if len(f) != 4 || f[0] != "result" {
					continue
				}
				v, err := strconv.ParseFloat(f[2], 64)
				if err != nil {
					continue
				}
				if units[f[1]] == "" {
					order = append(order, f[1])
				}
				units[f[1]] = f[3]
				if all[f[1]] == nil {
					all[f[1]] = map[string][]float64{}
				}
				all[f[1]][n.name] = append(all[f[1]][n.name], v)
			}
		}
	}
	b.mpiTable(ranks, order, units, all)
	return nil
}

// mpiTable prints a row per figure; the ratio is O2G's advantage over its best
// peer, above 1 is better whatever the unit.
func (b *bench) mpiTable(ranks int, order []string, units map[string]string, all map[string]map[string][]float64) {
	fmt.Printf("%-24s %-8s", "figure", "unit")
	for _, n := range networks() {
		fmt.Printf(" %10s", n.name)
	}
	fmt.Printf(" %8s\n", "ratio")
	for _, key := range order {
		fmt.Printf("%-24s %-8s", key, units[key])
		more := strings.HasSuffix(units[key], "/s")
		own, best := 0.0, 0.0
		for _, n := range networks() {
			list := all[key][n.name]
			if len(list) == 0 {
				fmt.Printf(" %10s", "-")
				continue
			}
			v := median(list)
			fmt.Printf(" %10.4g", v)
			fmt.Fprintf(os.Stderr, "result mpi %d %s %s %.6g %s\n", ranks, n.name, key, v, units[key])
			switch {
			case n.name == "o2g":
				own = v
			case best == 0 || (more && v > best) || (!more && v < best):
				best = v
			}
		}
		switch {
		case own == 0 || best == 0:
			fmt.Printf(" %8s\n", "-")
		case more:
			fmt.Printf(" %8.2f\n", own/best)
		default:
			fmt.Printf(" %8.2f\n", best/own)
		}
	}
}

// mpiTime bounds one run of one network.
const mpiTime = 3 * time.Minute

func (b *bench) mpiRun(n network, ranks int, words []string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), mpiTime)
	defer stop()
	program := filepath.Join(b.build, "bench", "mpi", "measure")
	var args []string
	if n.args != nil {
		args = append([]string{b.bin("skep"), "mpirun", "--quiet", "--mpi", b.prefixMPI, "-n", strconv.Itoa(ranks)}, n.args...)
		args = append(args, "--")
	} else {
		args = []string{filepath.Join(b.prefixMPI, "bin", "mpiexec"), "-n", strconv.Itoa(ranks)}
	}
	args = append(append(args, program), words...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), n.env...)
	cmd.WaitDelay = 10 * time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("not finished after %v", mpiTime)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}
