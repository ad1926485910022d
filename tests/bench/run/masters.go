// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	mastersMany = 16
	shareTime   = 20 * time.Second // of each round; a slot changes hands every second
)

// rpcMasters compares the small calls that 16 masters get done together on two slots with
// those of one master. Each keeps eight calls open for the whole time, so that only changes
// of a slot's owner cost anything. On a busy machine only the processor time of a call says
// something: without other work the two processors are the limit.
func (b *bench) rpcMasters() error {
	var one, many, starts, least, most, oneCost, manyCost []float64
	for range b.rounds {
		f, cost, err := b.costShared(1)
		if err != nil {
			return err
		}
		one, oneCost = append(one, f.sum()), append(oneCost, cost)
		if f, cost, err = b.costShared(mastersMany); err != nil {
			return err
		}
		sum := f.sum()
		many, manyCost, starts = append(many, sum), append(manyCost, cost), append(starts, f.workers)
		least = append(least, slices.Min(f.calls)*mastersMany/sum)
		most = append(most, slices.Max(f.calls)*mastersMany/sum)
	}
	ratio := medianOf(many) / medianOf(one)
	fmt.Printf("small calls on two slots in %v:\n", shareTime)
	fmt.Printf("  %-22s %8.0f\n", "one master", medianOf(one))
	fmt.Printf("  %-22s %8.0f, %.2f of one's, by %.0f workers; each master %.2f to %.2f of an equal share\n",
		fmt.Sprint(mastersMany, " masters together"), medianOf(many), ratio, medianOf(starts), medianOf(least), medianOf(most))
	less := medianOf(oneCost) / medianOf(manyCost)
	fmt.Printf("  processor time of a call: %.0f us with one, %.0f us with %d, so %.2f of one's on a quiet machine\n",
		medianOf(oneCost)*1e6, medianOf(manyCost)*1e6, mastersMany, less)
	b.writeRecord("result rpc_masters two-slots skep-one-master calls %.0f calls", medianOf(one))
	b.writeRecord("result rpc_masters two-slots skep-%d-masters calls %.0f calls", mastersMany, medianOf(many))
	return nil
}

// A shared is what masters got done that shared two slots.
type shared struct {
	calls   []float64 // of each master
	workers float64   // of all
	used    float64   // seconds of processors, with the start and the end
}

func (f *shared) sum() (n float64) {
	for _, c := range f.calls {
		n += c
	}
	return n
}

// costShared also returns the processor time of a call, without what runs of no length use.
func (b *bench) costShared(masters int) (f shared, cost float64, err error) {
	empty, err := b.shareSlots(masters, time.Millisecond)
	if err == nil {
		f, err = b.shareSlots(masters, shareTime)
	}
	return f, (f.used - empty.used) / max(f.sum()-empty.sum(), 1), err
}

// shareSlots runs masters beside each other on a hub of their own.
func (b *bench) shareSlots(masters int, d time.Duration) (f shared, err error) {
	state, err := os.MkdirTemp(b.work, "share")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(state)
	hub := b.makeCommand(side{}, b.binPath("skep"), "up", "--state", state, "--listen", "127.0.0.1:0", "--slots", "2", "--no-token")
	out, err := hub.StdoutPipe()
	if err == nil {
		err = hub.Start()
	}
	if err != nil {
		return f, err
	}
	defer func() {
		hub.Process.Signal(os.Interrupt)
		hub.Wait()
		f.used += processorTime(hub)
	}()
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return f, fmt.Errorf("the hub did not come up: %w", err)
	}
	start := filepath.Join(state, "start")
	ready, over := make(chan error, masters), make(chan error, masters)
	runs := make([]*sharer, masters)
	for i := range runs {
		runs[i] = &sharer{cmd: b.makeCommand(side{}, b.binPath("skep"), "run", "--state", state, "--modules", b.build+"/bench/rpc", "--",
			b.build+"/bench/rpc/master", "share", strconv.FormatFloat(d.Seconds(), 'f', -1, 64), start)}
		go func() { over <- runs[i].run(ready) }()
	}
	for range masters {
		if err = errors.Join(err, <-ready); err != nil {
			break
		}
	}
	if err := errors.Join(err, os.WriteFile(start, nil, 0o600)); err != nil {
		return f, err
	}
	for range masters {
		err = errors.Join(err, <-over)
	}
	for _, r := range runs {
		f.calls, f.workers, f.used = append(f.calls, r.figures["calls"]), f.workers+r.figures["workers"], f.used+processorTime(r.cmd)
	}
	return f, err
}

// A sharer is one run. Its master says when it is ready.
type sharer struct {
	cmd     *exec.Cmd
	figures figures
}

func (r *sharer) run(ready chan<- error) error {
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		ready <- err
		return err
	}
	in := bufio.NewReader(out)
	line, err := in.ReadString('\n')
	if err == nil && line != "ready\n" {
		err = fmt.Errorf("a master says %q", line)
	}
	ready <- err
	var rest bytes.Buffer
	io.Copy(&rest, in)
	r.figures, _ = parseFigures(rest.Bytes())
	if err = errors.Join(err, r.cmd.Wait()); err == nil && len(r.figures) == 0 {
		err = errors.New("a master says nothing of its calls")
	}
	return err
}

// processorTime returns the seconds that an ended program and its children used.
func processorTime(cmd *exec.Cmd) float64 {
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}
