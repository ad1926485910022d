// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownerSeconds is how long the owner plays and types in each round.
const ownerSeconds = 10

// A way is how work runs beside the owner, if any does. BOINC runs its programs with
// nice 19, HTCondor with nice 0 unless told otherwise; both suspend them while the owner
// is there, which is the row without work once they have noticed.
type way struct {
	name, text string
	start      func(*bench) (stop func(), err error)
}

var ways = []way{
	{"none", "no work", func(*bench) (func(), error) { return func() {}, nil }},
	{"skep", "Skep, never pausing", (*bench).spinUnderSkep},
	{"nice19", "nice 19 (BOINC's)", func(b *bench) (func(), error) { return b.spin("nice", "-n", "19") }},
	{"nice0", "nice 0 (HTCondor's)", func(b *bench) (func(), error) { return b.spin() }},
}

// benchOwner measures what an owner notices of work that uses each processor.
func (b *bench) benchOwner() error {
	all := map[string]map[string][]float64{}
	for range b.rounds {
		for _, w := range ways {
			f, err := b.ownerBeside(w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if all[w.name] == nil {
				all[w.name] = map[string][]float64{}
			}
			for key, v := range f {
				all[w.name][key] = append(all[w.name][key], v)
			}
		}
	}
	fmt.Printf("%-22s %10s %10s %12s %12s %10s %8s\n", "beside", "missed", "of", "frame 99 %", "echo 99 %", "build", "slower")
	none := medianOf(all["none"]["build"])
	for _, w := range ways {
		of := func(key string) float64 { return medianOf(all[w.name][key]) }
		missed := 0.0
		for _, v := range all[w.name]["missed"] {
			missed += v
		}
		slower := (of("build")/none - 1) * 100
		fmt.Printf("%-22s %10.0f %10.0f %9.2f ms %9.3f ms %8.2f s %6.1f %%\n", w.text, missed, of("frames")*float64(b.rounds),
			of("frame_99")/1e6, of("echo_99")/1e6, of("build")/1e9, slower)
		b.writeRecord("result bench=owner way=%s missed=%.0f periods=%.0f frame_99_ms=%.2f echo_99_us=%.0f build_s=%.3f slower_percent=%.2f",
			w.name, missed, of("frames")*float64(b.rounds), of("frame_99")/1e6, of("echo_99")/1e3, of("build")/1e9, slower)
	}
	return nil
}

// ownerBeside runs the owner's programs while work runs in one way.
func (b *bench) ownerBeside(w way) (figures, error) {
	stop, err := w.start(b)
	if err != nil {
		return nil, err
	}
	defer stop()
	out, err := b.makeCommand(side{}, b.build+"/bench/linux/owner", strconv.Itoa(ownerSeconds)).Output()
	if err != nil {
		return nil, err
	}
	f, _ := parseFigures(out)
	began := time.Now()
	if err := b.ownersBuild(); err != nil {
		return nil, err
	}
	f["build"] = float64(time.Since(began))
	return f, nil
}

// ownersBuild compiles the client library's GridRPC part, on all processors, twice for each.
func (b *bench) ownersBuild() error {
	root := filepath.Dir(b.build)
	var all []*exec.Cmd
	for i := range 2 * runtime.NumCPU() {
		c := exec.Command("sh", "-c", fmt.Sprintf(`for f in grid/gridrpc/*.c grid/lib/*.c; do gcc -O2 -Iinclude -Igrid/include -I. -c -o %s/owner%d.o "$f" || exit 1; done`, b.work, i))
		c.Dir, c.Stderr = root, os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
	}
	var failed error
	for _, c := range all {
		failed = errors.Join(failed, c.Wait())
	}
	return failed
}

// spin starts work for each processor, with words before the program.
func (b *bench) spin(words ...string) (func(), error) {
	var all []*exec.Cmd
	stop := func() {
		for _, c := range all {
			c.Process.Signal(syscall.SIGINT)
			c.Wait()
		}
	}
	for range runtime.NumCPU() {
		c := b.makeCommand(side{words: words}, b.build+"/bench/linux/spin")
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// spinUnderSkep starts a hub and a node on this machine, and runs the same by skep exec.
func (b *bench) spinUnderSkep() (func(), error) {
	state, err := os.MkdirTemp(b.work, "owner")
	if err != nil {
		return nil, err
	}
	hub := b.makeCommand(side{}, b.binPath("skep"), "up", "--no-token", "--listen", "127.0.0.1:0", "--state", state)
	hub.Stdout = hub.Stderr
	if err := hub.Start(); err != nil {
		return nil, err
	}
	stopSpin := func() {}
	stop := func() {
		stopSpin()
		hub.Process.Signal(syscall.SIGTERM)
		hub.Wait()
		os.RemoveAll(state)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := b.makeCommand(side{}, b.binPath("skep"), "exec", "--state", state, "--", filepath.Join(b.build, "conformance", "glibc", "hello")).Output()
		if strings.Contains(string(out), "hello") { // its exit code is 7
			break
		}
		if time.Now().After(end) {
			stop()
			return nil, fmt.Errorf("the node does not run programs: %w: %s", err, strings.TrimSpace(string(out)))
		}
	}
	if stopSpin, err = b.spin(b.binPath("skep"), "exec", "--state", state, "--"); err != nil {
		stopSpin = func() {}
		stop()
		return nil, err
	}
	return stop, nil
}
