// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"skep/internal/cli"
	"skep/lab/hold"
)

type labUp struct {
	labMachine
	labProgram
	detach bool
}

func (u *labUp) options(f *cli.Flags) {
	f.StringVar(&u.Name, "name", "", "call it `NAME`, else "+labName+", "+labName+"2, ...")
	u.labMachine.options(f)
	f.BoolVar(&u.user, "user", false, "the shell is an ordinary user's")
	f.BoolVar(&u.detach, "detach", false, "leave it running, without a shell")
}

func (u *labUp) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if !u.detach && !isTerminal(os.Stdin) {
		return f.Usagef("a shell needs a terminal: give --detach, or use skep lab run")
	}
	build, err := labBuild()
	if err != nil {
		return err
	}
	switch {
	case u.Name == "":
		u.Name = hold.FreeName(build, labName)
	case strings.HasPrefix(u.Name, labAlone):
		return f.Usagef("--name %s: this name is reserved for the machine of a single command, choose another", u.Name)
	}
	if err := u.labMachine.check(f, build); err != nil {
		return err
	}
	m, err := labStart(ctx, build, u.Machine)
	if err != nil {
		return err
	}
	if u.detach {
		return u.leaveRunning(m)
	}
	fmt.Fprintf(os.Stderr, "skep: %s: %s; leave the shell to end it\nskep: files in /out are kept in %s, all others are lost\n",
		m.Name, describeMachine(&m.Info), m.Out())
	err = labInteract(ctx, build, m, &u.labProgram)
	return errors.Join(err, labFinish(ctx, m, err))
}

func (u *labUp) leaveRunning(m *hold.Machine) error {
	if err := m.Keep(); err != nil {
		return fmt.Errorf("the machine cannot be detached: %w", err)
	}
	_, err := fmt.Printf("%s: %s\n  skep lab run --name %s -- COMMAND\n  skep lab shell %s\n  skep lab down %s\nfiles in /out there are kept in %s\n",
		m.Name, describeMachine(&m.Info), m.Name, m.Name, m.Name, m.Out())
	if err != nil {
		return fmt.Errorf("the machine %s runs, but this cannot be recorded: %w", m.Name, err)
	}
	return nil
}

// labFinish ends a machine whose only command has ended. The console of a machine that died
// is kept.
func labFinish(ctx context.Context, m *hold.Machine, end error) error {
	if err := m.Down(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if code, _ := cli.ExitCode(end); code != cli.Unreachable && isTerminal(os.Stderr) {
		fmt.Fprintf(os.Stderr, "skep: the machine %s has ended\n", m.Name)
		if !hold.Empty(m.Out()) {
			fmt.Fprintf(os.Stderr, "skep: what it left is in %s\n", m.Out())
		}
	}
	return nil
}
