// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/tests/wire"
)

// A network is one transport for the messages of the same program.
type network struct {
	name string
	args []string // options of skep mpirun; none: the MPI's launcher itself is used
	env  []string
}

const asyncProgress = "MPIR_CVAR_ASYNC_PROGRESS=1"

// A play says which networks are measured with which questions, by how many ranks, and
// where.
type play struct {
	name     string
	networks []network
	ranks    int
	words    []string
	rounds   int
	wire     *wire.Wire // nil: all ranks on this computer
}

var ucx = []string{"MPIR_CVAR_CH4_NETMOD=ucx", "UCX_TLS=tcp,self", "MPIR_CVAR_NOLOCAL=1"}

// listNetworks lists the networks in the order in which they are measured, O2G first.
func listNetworks() []network {
	return []network{
		{name: "o2g", args: []string{"--no-shm"}},
		{name: "tcp", args: []string{"--tcp", "--no-shm"}},
		{name: "tcp+thread", args: []string{"--tcp", "--no-shm"}, env: []string{asyncProgress}},
		{name: "ucx", env: ucx},
		{name: "ucx+thread", env: append([]string{asyncProgress}, ucx...)},
	}
}

// The questions for 2 ranks, and for more ranks those that use all of them.
var (
	mpiWords     = []string{"latency", "bandwidth", "held", "overlap", "mixed", "patterns", "sort", "wait"}
	mpiManyWords = []string{"patterns", "sort"}
)

// benchMPI measures MPICH's programs over O2G, its own TCP and UCX, interleaved.
func (b *bench) benchMPI() error {
	for _, ranks := range []int{2, 4} {
		words := mpiWords
		if ranks > 2 {
			words = mpiManyWords
		}
		fmt.Printf("\n%d ranks, no shared memory, median of %d rounds\n", ranks, b.rounds)
		b.mpiPlay(play{"mpi", listNetworks(), ranks, words, b.rounds, nil})
	}
	stop, err := keepBusy(runtime.NumCPU())
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("\n2 ranks beside a busy process per core, no shared memory, median of %d rounds\n", b.rounds)
	b.mpiPlay(play{"mpi_busy", listNetworks(), 2, []string{"latency"}, b.rounds, nil})
	return nil
}

// keepBusy starts n processes that compute until they are stopped. They end with
// this program, too.
func keepBusy(n int) (stop func(), err error) {
	var running []*exec.Cmd
	stop = func() {
		for _, c := range running {
			_ = c.Process.Kill()
			_ = c.Wait() // it was killed
		}
	}
	runtime.LockOSThread() // their end is tied to this thread
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		running = append(running, c)
	}
	return stop, nil
}

// delayWay is the one-way delay of a packet in mpi_delay: the round trip is 20 ms.
const delayWay = 10 * time.Millisecond

// mpiDelay measures two hosts with a delay between them.
func (b *bench) mpiDelay() error {
	w, err := wire.New(b.work, 2, delayWay)
	if err != nil {
		return err
	}
	defer w.Close()
	list := []network{
		{name: "o2g", args: []string{"--iface", wire.Device}},
		{name: "tcp", args: []string{"--tcp", "--iface", wire.Device}},
		{name: "ucx", env: append([]string{"UCX_NET_DEVICES=" + wire.Device}, ucx...)},
	}
	rounds := min(b.rounds, 2)
	fmt.Printf("\n2 ranks on two hosts, %v of delay each way, median of %d rounds\n", delayWay, rounds)
	b.mpiPlay(play{"mpi_delay", list, 2, []string{"latency", "bandwidth", "held", "sort"}, rounds, w})
	return nil
}

// mpiPlay measures the networks in turn and prints the figures.
func (b *bench) mpiPlay(p play) {
	all := map[string]map[string][]float64{}
	units := map[string]string{}
	var order []string
	for range p.rounds {
		for _, n := range p.networks {
			out, err := b.mpiRun(p, n)
			if err != nil {
				fmt.Printf("%s: %v\n", n.name, err)
				continue // a failure of a peer is a result too
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
	b.printPlay(p, order, units, all)
}

// printPlay prints a row per figure. The ratio is O2G's advantage over its best peer; above
// 1, O2G is better, whatever the unit.
func (b *bench) printPlay(p play, order []string, units map[string]string, all map[string]map[string][]float64) {
	fmt.Printf("%-24s %-8s", "figure", "unit")
	for _, n := range p.networks {
		fmt.Printf(" %10s", n.name)
	}
	fmt.Printf(" %8s\n", "ratio")
	for _, key := range order {
		fmt.Printf("%-24s %-8s", key, units[key])
		more := strings.HasSuffix(units[key], "/s")
		own, best := 0.0, 0.0
		for _, n := range p.networks {
			list := all[key][n.name]
			if len(list) == 0 {
				fmt.Printf(" %10s", "-")
				continue
			}
			v := medianOf(list)
			fmt.Printf(" %10.4g", v)
			b.writeRecord("result %s %d-ranks %s %s %.6g %s", p.name, p.ranks, n.name, key, v, units[key])
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

// mpiTime is the time limit of one run of one network.
const mpiTime = 3 * time.Minute

func (b *bench) mpiRun(p play, n network) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), mpiTime)
	defer stop()
	args, env := b.mpiCommand(p, n)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	// After SIGTERM launchers end the ranks on other hosts; after SIGKILL they can't.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
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

// mpiCommand returns the command line and environment of a job. UCX, which skep mpirun does
// not set up, runs by the MPI's launcher with the same settings.
func (b *bench) mpiCommand(p play, n network) (args, env []string) {
	env = n.env
	if p.wire != nil { // the launcher runs on the first host
		args = p.wire.Enter(1)
	}
	if n.args != nil {
		args = append(args, b.binPath("skep"), "mpirun", "--quiet", "--mpi", b.prefixMPI)
		args = append(args, n.args...)
	} else {
		args = append(args, filepath.Join(b.prefixMPI, "bin", "mpiexec"))
	}
	if w := p.wire; w != nil {
		hosts := w.Host(1) + "," + w.Host(2)
		if n.args != nil {
			args = append(args, "--hosts", hosts, "--launcher", w.Shell)
		} else {
			args = append(args, "-hosts", hosts, "-localhost", w.Host(1), "-launcher", "ssh", "-launcher-exec", w.Shell)
		}
	}
	args = append(args, "-n", strconv.Itoa(p.ranks))
	if n.args != nil {
		args = append(args, "--")
	}
	return append(append(args, filepath.Join(b.build, "bench", "mpi", "measure")), p.words...), env
}
