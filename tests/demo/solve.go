// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
	"skep/internal/load"
)

// solveProblem runs the master on the present nodes, shows its output and the nodes'
// progress, and returns the hub's events. With quiet, for a run that only serves as a
// comparison, it does not print a good answer.
func (s *stage) solveProblem(quiet bool) (*result, error) {
	events, err := s.client.Events(s.ctx)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	r := newResult()
	progress := cli.NewProgress(os.Stdout)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watchEvents(events, progress)
	}()
	cmd := s.masterCommand()
	begin := time.Now()
	var answer bytes.Buffer
	err = s.runMaster(cmd, progress, &answer, quiet)
	r.wall = time.Since(begin)
	// Wait for the last event, the end of the session.
	select {
	case <-r.ended:
	case <-time.After(load.Stretch(5 * time.Second)):
	case <-s.ctx.Done():
	}
	events.Close()
	<-watched
	progress.Done()
	if s.ctx.Err() != nil {
		return nil, s.ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	r.code = cmd.ProcessState.ExitCode()
	if r.code != 0 {
		os.Stdout.Write(answer.Bytes())
	}
	return r, nil
}

func (s *stage) masterCommand() *exec.Cmd {
	words := []string{"run", "--state", filepath.Join(s.Dir, "hub"), "--modules", filepath.Dir(s.o.worker), "--",
		s.o.master}
	if s.o.size > 0 {
		words = append(words, "--size", strconv.Itoa(s.o.size))
	}
	return exec.Command(filepath.Join(s.o.bin, "skep"), append(words, s.o.args...)...)
}

// runMaster runs the master. The progress stays below the master's output.
func (s *stage) runMaster(cmd *exec.Cmd, progress *cli.Progress, answer io.Writer, quiet bool) error {
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if quiet {
		cmd.Stdout = answer
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(s.ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				progress.PrintAbove(string(bytes.TrimRight(line, "\n")) + "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	err := cmd.Wait()
	in.Close()
	<-copied
	return err
}

// watchEvents reads events until the stream is closed. Without a terminal it prints a line
// per node from time to time.
func (r *result) watchEvents(events *hub.Stream, progress *cli.Progress) {
	shown := time.Now()
	for {
		e, err := events.Next()
		if err != nil {
			return
		}
		if text := r.countEvent(e); text != "" {
			progress.PrintAbove(text + "\n")
		}
		lines := r.shareLines()
		progress.Set(lines)
		if !progress.Terminal() && time.Since(shown) > 3*time.Second && len(lines) > 0 {
			shown = time.Now()
			for _, line := range lines {
				progress.PrintAbove("  " + line + "\n")
			}
		}
	}
}

func digestOf(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("the worker is missing: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}
