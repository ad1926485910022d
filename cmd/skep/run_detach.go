// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"skep/grid/detach"
	"skep/grid/hub"
	"skep/grid/proto"
	"skep/internal/cli"
)

// A detached run has a holder, another process of skep that no terminal can end. It gets an
// order on its standard input, and answers on its standard output.

// A holdOrder says what to run, in the folder in which the holder was started.
type holdOrder struct {
	ID      string
	State   string
	Modules []string
	Limits  proto.Limits
	Terms   hub.RunRequest
	Lease   time.Duration
	Words   []string
}

// A holdAnswer is empty once the master is about to start.
type holdAnswer struct {
	Code int
	Text string
}

// leaveRunning starts a holder, and prints the run's ID when the holder has recorded the run.
func (r *run) leaveRunning(ctx context.Context, f *cli.Flags, master string, words []string) error {
	if r.hostfile != "" || f.Given("slots") || r.allow.isGiven() {
		return f.Usagef("--detach needs a hub that goes on after this command: start 'skep up', and leave --hostfile, --slots and --allow out")
	}
	if r.lease < 0 || f.Given("lease") && r.lease == 0 {
		return f.Usagef("--lease %v is not a time", r.lease)
	}
	if _, err := r.moduleDirs(master); err != nil {
		return err
	}
	state, err := stateDir(r.state)
	if err != nil {
		return err
	}
	c, err := openControl(state)
	if err != nil {
		return err
	}
	if _, err := c.Status(ctx); errors.Is(err, hub.ErrNoHub) && !c.IsFar() {
		return cli.Errorf(cli.Unreachable, "--detach needs a hub that goes on after this command: start 'skep up' first (%v)", err)
	} else if err != nil {
		return withExitCode(err)
	}
	id, err := detach.Open(state).Create()
	if err != nil {
		return fmt.Errorf("the run cannot be recorded: %w", err)
	}
	o := holdOrder{id, state, r.modules, r.limits, r.terms, r.lease, words}
	if err := startHolder(&o); err != nil {
		os.RemoveAll(detach.Open(state).Dir(id))
		return err
	}
	fmt.Fprintf(os.Stderr, "skep: the run goes on; 'skep attach %s' shows its output, 'skep runs --end %s' ends it\n", id, id)
	_, err = fmt.Println(id)
	return err
}

func startHolder(o *holdOrder) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	order, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "hold")
	cmd.Stdin = strings.NewReader(string(order))
	if err := leaveTerminal(cmd); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("a detached run cannot be started: %w", err)
	}
	var a holdAnswer
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&a); err != nil {
		cmd.Process.Kill()
		return fmt.Errorf("a detached run ended as it began: %w", errors.Join(err, cmd.Wait()))
	}
	if a.Text != "" {
		cmd.Wait()
		return cli.Errorf(a.Code, "%s", a.Text)
	}
	return nil
}

// holdRun is the holder.
type holdRun struct{}

func (h *holdRun) options(*cli.Flags) {}

func (h *holdRun) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	var o holdOrder
	if json.NewDecoder(os.Stdin).Decode(&o) != nil || len(o.Words) == 0 {
		return f.Usagef("skep starts this command itself")
	}
	if err := ignoreTerminal(); err != nil {
		return err
	}
	answer := os.Stdout
	held, err := o.open()
	if err == nil {
		err = held.redirect()
	}
	if err != nil {
		code, text := cli.ExitCode(err)
		json.NewEncoder(answer).Encode(holdAnswer{code, text})
		return cli.Exit(code)
	}
	json.NewEncoder(answer).Encode(holdAnswer{})
	answer.Close()
	return held.follow(ctx)
}

// A held is a detached run in its holder.
type held struct {
	order  *holdOrder
	runs   detach.Runs
	record detach.Record
	log    *detach.Log
	passed chan struct{} // closed when all output is in the log
	output *os.File
}

// open takes the lock of a run, begins its log, and writes its record.
func (o *holdOrder) open() (*held, error) {
	h := &held{order: o, runs: detach.Open(o.State)}
	if err := h.runs.Hold(o.ID); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(o.Words[0]); err != nil {
		return nil, notRun(o.Words[0], err)
	}
	var err error
	if h.log, err = detach.OpenLog(h.runs.Dir(o.ID)); err != nil {
		return nil, err
	}
	folder, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	h.record = detach.Record{ID: o.ID, Words: o.Words, Folder: folder, PID: os.Getpid(), Started: time.Now(), Lease: o.Lease}
	return h, h.runs.Write(h.record)
}

// redirect makes the log what this process and the master write to.
func (h *held) redirect() error {
	none, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	os.Stdin, os.Stdout, os.Stderr, h.output = none, w, w, w
	h.passed = make(chan struct{})
	go func() {
		defer close(h.passed)
		io.Copy(h.log, r)
	}()
	return nil
}

// follow runs the master and writes down how it ended.
func (h *held) follow(ctx context.Context) error {
	over := ctx
	if h.order.Lease > 0 {
		var cancel context.CancelFunc
		over, cancel = context.WithTimeout(ctx, h.order.Lease)
		defer cancel()
	}
	err := h.runMaster(over)
	code, text := cli.ExitCode(err)
	switch {
	case ctx.Err() != nil:
		text = "it was ended by 'skep runs --end'"
	case over.Err() != nil:
		text = fmt.Sprintf("its lease of %v was over", h.order.Lease)
	}
	h.output.Close() // a process that the master left behind may still have it
	select {
	case <-h.passed:
	case <-time.After(masterTimeout):
	}
	ended := time.Now()
	h.record.Ended, h.record.Exit, h.record.Why = &ended, code, text
	return h.runs.Write(h.record)
}

func (h *held) runMaster(ctx context.Context) error {
	r := run{held: true, keep: h.runs.Dir(h.order.ID), state: h.order.State, modules: h.order.Modules, limits: h.order.Limits, terms: h.order.Terms}
	c, err := openControl(r.state)
	if err != nil {
		return err
	}
	master, err := exec.LookPath(h.order.Words[0])
	if err != nil {
		return notRun(h.order.Words[0], err)
	}
	return r.runMaster(ctx, c, master, h.order.Words)
}
