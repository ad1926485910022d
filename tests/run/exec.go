// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"skep/internal/load"
	"skep/tests/tap"
)

// A parser reads a suite's standard output line by line.
type parser interface {
	line(text string)
	// noise is a line of standard error, kept as detail of failures.
	noise(text string)
	// finish gives the results; exit describes an exit other than 0.
	finish(exit string) []result
}

// newParser returns nil for an unknown kind.
func newParser(s suite) parser {
	switch s.kind {
	case "tap":
		return &tapParser{suite: s.name}
	case "go":
		return newGoParser(s.name)
	case "exit", "fuzz":
		return &exitParser{suite: s.name}
	}
	return nil
}

// An outcome is the result of one suite.
type outcome struct {
	results     []result
	took        time.Duration
	cpu         time.Duration // processor time of its processes that ended
	left        []string      // what it left behind, now ended or removed
	interrupted bool
}

// run executes the suite, its whole output going to the file log.
func (s suite) run(log string, stop <-chan os.Signal) outcome {
	began, used := time.Now(), childrenCPU()
	out := outcome{}
	p := newParser(s)
	place, err := newScene()
	if err != nil {
		out.results = p.finish(err.Error())
		return out
	}
	exit, err := s.execute(log, place.dir, p, stop, &out)
	out.left = append(out.left, place.clear()...)
	out.took, out.cpu = time.Since(began), childrenCPU()-used
	if err != nil {
		exit = err.Error()
	}
	out.results = p.finish(exit)
	if !out.interrupted {
		out.results = append(out.results, s.judgeLeft(log, out.left)...)
	}
	return out
}

// childrenCPU returns the processor time of all descendants that ended and were waited for.
// On a busy computer it is more meaningful than the wall time.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// execute returns a sentence about the exit, empty when the status was 0. It ends the suite's
// processes.
func (s suite) execute(log, tmp string, p parser, stop <-chan os.Signal, out *outcome) (string, error) {
	file, err := os.Create(log)
	if err != nil {
		return "", err
	}
	defer file.Close()
	cmd := exec.Command("nice", "-n", strconv.Itoa(s.niceness), "/bin/sh", "-c", s.command)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, outPipe, err := os.Pipe()
	if err != nil {
		return "", err
	}
	stderr, errPipe, err := os.Pipe()
	if err != nil {
		return "", errors.Join(err, stdout.Close(), outPipe.Close())
	}
	cmd.Stdout, cmd.Stderr = outPipe, errPipe
	err = cmd.Start()
	outPipe.Close()
	errPipe.Close()
	if err != nil {
		return "", errors.Join(err, stdout.Close(), stderr.Close())
	}
	var mu sync.Mutex
	drained := make(chan struct{}, 2)
	go pumpLines(stdout, file, &mu, p.line, drained)
	go pumpLines(stderr, file, &mu, p.noise, drained)
	exit := s.wait(cmd, stop, out)
	if !out.interrupted {
		awaitEnd()
	}
	out.left = endLeftovers() // they may hold the pipes open
	limit := time.Now().Add(load.Stretch(drainMax))
	_, _ = stdout.SetReadDeadline(limit), stderr.SetReadDeadline(limit) // or they have ended
	<-drained
	<-drained
	return exit, nil
}

// drainMax is how long output is read after the suite's end. A process that does not end, or
// that does not belong to the suite, may keep the pipes open.
var drainMax = 10 * time.Second

// scale stretches deadlines; tests replace it.
var scale = load.Scale

// wait returns at the suite's exit, its deadline or a signal to the runner. The deadline is
// in seconds of an idle computer, so that a busy computer makes a suite slow but not fail.
func (s suite) wait(cmd *exec.Cmd, stop <-chan os.Signal, out *outcome) string {
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	done, reaped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reaped)
		reapOrphans(cmd.Process.Pid, done)
	}()
	defer func() {
		close(done)
		<-reaped
	}()
	began := time.Now()
	timer := load.NewTimer(s.deadline, scale)
	defer timer.Stop()
	var exit string
	select {
	case err := <-exited:
		exit = exitText(err)
	case <-timer.C:
		exit = fmt.Sprintf("not finished after its deadline of %v, killed (on this computer, with its load, after %v)",
			s.deadline, time.Since(began).Round(time.Second/10))
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	case <-stop:
		exit = "interrupted"
		out.interrupted = true
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	}
	return exit
}

func exitText(err error) string {
	if err == nil {
		return ""
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return "killed by signal: " + ws.Signal().String()
		}
	}
	return err.Error()
}

// pumpLines copies lines from r to the log and to each; lines longer than the
// buffer arrive in pieces, so that a suite can't exhaust the runner's memory.
func pumpLines(r io.ReadCloser, log io.Writer, mu *sync.Mutex, each func(string), drained chan<- struct{}) {
	defer func() { drained <- struct{}{} }()
	defer r.Close()
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		line, _, err := in.ReadLine()
		if err != nil {
			return
		}
		mu.Lock()
		fmt.Fprintf(log, "%s\n", line)
		each(string(line))
		mu.Unlock()
	}
}

// An exitParser treats the exit status as the only test.
type exitParser struct {
	suite string
	last  tap.Tail
}

func (p *exitParser) line(text string)  { p.last.Add(text) }
func (p *exitParser) noise(text string) { p.last.Add(text) }

func (p *exitParser) finish(exit string) []result {
	r := result{suite: p.suite, name: "exits with 0", status: passed}
	if exit != "" {
		r.status, r.reason, r.detail = failed, exit, p.last.Lines
	}
	return []result{r}
}
