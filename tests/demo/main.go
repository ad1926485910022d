// SPDX-License-Identifier: MIT

// Command demo shows Skep's main use: a hub, a Linux node and a Windows node on this machine
// solve one eigenvalue problem with the same static Linux file. It prints what happened, and
// checks it by the hub's events and the solver's results.
//
//	demo                            the main job; about a minute
//	demo -soak -- --elements X,Y,Z  only the hybrid run, of another problem
//
// Exit codes: 0 all is well, 1 it is not, 2 usage, 130 interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

type options struct {
	bin, master, worker, prefix, bee string
	size                             int
	soak                             bool
	args                             []string // for the master
}

func parseOptions() options {
	var o options
	flag.StringVar(&o.bin, "bin", "build/bin", "where skep, skep.exe and bee.exe are")
	flag.StringVar(&o.master, "master", "build/bin/eigen", "the solver's master")
	flag.StringVar(&o.worker, "worker", "build/bin/eigen.rex", "the solver's worker, a static Linux program")
	flag.StringVar(&o.prefix, "prefix", "build/wine-demo", "WINEPREFIX")
	flag.StringVar(&o.bee, "bee", "", "put this in place of bee.exe, to see that it is found out")
	flag.IntVar(&o.size, "size", 0, "grid points of the problem in each direction; 0: the solver's default")
	flag.BoolVar(&o.soak, "soak", false, "only the hybrid run")
	flag.Parse()
	o.args = flag.Args()
	for _, path := range []*string{&o.bin, &o.master, &o.worker, &o.prefix, &o.bee} {
		if *path != "" {
			*path, _ = filepath.Abs(*path)
		}
	}
	return o
}

// The children are killed when the thread that started them ends (PR_SET_PDEATHSIG), so that
// must be the main thread, which Go's runtime does not end.
func init() { runtime.LockOSThread() }

func main() {
	o := parseOptions()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := newStage(ctx, o)
	if err == nil {
		err = s.runShow()
		s.close()
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; nothing of it runs any more")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// runShow runs the demo. Each node joins only when it is needed, because a run uses all nodes.
func (s *stage) runShow() error {
	digest, size, err := digestOf(s.o.worker)
	if err != nil {
		return fmt.Errorf("%w; run: make demo", err)
	}
	s.sayf("One Linux program for every node: %s, %d kB, SHA-256 %.16s…", filepath.Base(s.o.worker), size/1000, digest)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Print(explainLoad(string(load), runtime.NumCPU()))
	}
	if err := s.startHub(); err != nil {
		return err
	}
	var alone *result
	if !s.o.soak {
		s.titlef("Linux only")
		if alone, err = s.solveProblem(true); err != nil {
			return err
		}
		if alone.code != 0 {
			return fmt.Errorf("the solver ended with exit code %d on Linux alone", alone.code)
		}
		s.sayf("%s", alone.summaryLine())
	}
	if err := s.join(); err != nil {
		return err
	}
	s.titlef("Linux and Windows")
	both, err := s.solveProblem(false)
	if err != nil {
		return err
	}
	s.titlef("What happened")
	s.report(alone, both)
	if problems := judgeRuns(digest, both, alone); len(problems) > 0 {
		return errors.Join(problems...)
	}
	fmt.Println(both.closingLine())
	return nil
}

// explainLoad explains a wait if other programs use the machine, because on Linux workers
// have the lowest priority. text is the contents of /proc/loadavg.
func explainLoad(text string, cpus int) string {
	var load float64
	if _, err := fmt.Sscan(text, &load); err != nil || load < float64(cpus)/2 {
		return ""
	}
	return fmt.Sprintf("This machine is busy (load %.1f, %d processors). Workers take what others leave: what takes a minute may take many.\n", load, cpus)
}

func (s *stage) report(alone, both *result) {
	for _, line := range both.tableLines(alone) {
		s.sayf("%s", line)
	}
	if alone != nil {
		s.sayf("wall time  Linux only %.1f s, Linux and Windows %.1f s; both nodes share this machine's %d cores, one slot each",
			alone.wall.Seconds(), both.wall.Seconds(), runtime.NumCPU())
		return
	}
	s.sayf("wall time  %.1f s", both.wall.Seconds())
}

func (s *stage) titlef(format string, args ...any) {
	fmt.Printf("\n== "+format+"\n\n", args...)
}

func (s *stage) sayf(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
}

func roundTime(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
