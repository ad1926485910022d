// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
)

type labRun struct {
	labMachine
	labProgram
}

func (r *labRun) options(f *cli.Flags) {
	f.StringVar(&r.Name, "name", "", "in the machine `NAME`")
	r.labMachine.options(f)
	f.BoolVar(&r.user, "user", false, "as an ordinary user")
	f.IntVar(&r.node, "node", 0, "in the network of node `N`")
	f.StringVar(&r.dir, "dir", "", "in the folder `DIR`, else in this one")
}

func (r *labRun) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 || words[0] == "" {
		return f.Expectf("a command is expected")
	}
	build, err := labBuild()
	if err != nil {
		return err
	}
	m, alone, err := r.findMachine(ctx, f, build)
	if err != nil {
		return err
	}
	gaveUp, err := r.runIn(ctx, f, build, m, words)
	switch {
	case alone:
		err = errors.Join(err, labFinish(ctx, m, err))
	case gaveUp:
		err = cli.Errorf(exitStopped, "the command was given up: 'skep lab down %s' ends a machine that hangs", m.Name)
	}
	return err
}

// findMachine returns a running machine, or starts one that belongs to this command.
func (r *labRun) findMachine(ctx context.Context, f *cli.Flags, build string) (m *hold.Machine, alone bool, err error) {
	if r.Name != "" && r.isGiven(f) {
		return nil, false, f.Usagef("--name selects a running machine, the other options describe a new one for this command: give one or the other")
	}
	if !r.isGiven(f) {
		m, err := findMachine(build, r.Name)
		if m != nil || err != nil {
			return m, false, err
		}
	}
	r.Name = fmt.Sprintf("%s%d", labAlone, os.Getpid())
	if err := r.labMachine.check(f, build); err != nil {
		return nil, false, err
	}
	if err := r.labProgram.check(f, &hold.Info{Name: "for this command", Nodes: r.Nodes}); err != nil {
		return nil, false, err
	}
	m, err = labStart(ctx, build, r.Machine)
	return m, true, err
}

func (r *labRun) runIn(ctx context.Context, f *cli.Flags, build string, m *hold.Machine, words []string) (gaveUp bool, err error) {
	if err := r.labProgram.check(f, &m.Info); err != nil {
		return false, err
	}
	if err := r.chooseDir(ctx, m); err != nil {
		return false, err
	}
	ctx, signals, stop := passSignals(ctx)
	defer stop()
	err = labEnd(m.Exec(ctx, r.newProgram(build, words), labs.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Signals: signals}))
	return err != nil && ctx.Err() != nil, err
}

// signalsIgnored is how many terminating signals a program may ignore.
const signalsIgnored = 3

// passSignals forwards signals to the program. A machine that hangs does not react, so
// after several terminating signals the program is given up.
func passSignals(ctx context.Context) (context.Context, <-chan syscall.Signal, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	caught := make(chan os.Signal, 8)
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	passed := make(chan syscall.Signal, 8)
	go func() {
		ends := 0
		for {
			select {
			case s := <-caught:
				if s == os.Interrupt || s == syscall.SIGTERM {
					ends++
				}
				if ends == signalsIgnored {
					cancel()
				}
				select {
				case passed <- s.(syscall.Signal):
				default: // dropped if the stream is not read
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, passed, func() {
		signal.Stop(caught)
		cancel()
	}
}
