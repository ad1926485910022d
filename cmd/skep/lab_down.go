// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"skep/internal/cli"
	"skep/lab/hold"
)

type labDown struct{ all bool }

func (d *labDown) options(f *cli.Flags) { f.BoolVar(&d.all, "all", false, "every machine") }

func (d *labDown) run(ctx context.Context, f *cli.Flags, words []string) error {
	if d.all {
		if err := f.RefuseArgs(words); err != nil {
			return err
		}
	}
	name := ""
	if len(words) > 0 {
		name = words[0]
		if err := f.RefuseArgs(words[1:]); err != nil {
			return err
		}
	}
	build, err := labBuild()
	if err != nil {
		return err
	}
	running, dead, err := hold.List(build)
	if err != nil {
		return err
	}
	list, err := d.chooseMachines(f, name, running, dead)
	for _, m := range list {
		if end := m.Down(ctx); end != nil {
			err = errors.Join(err, end)
			continue
		}
		text := m.Name + " has ended"
		if !hold.Empty(m.Out()) {
			text += "; what it left is in " + m.Out()
		}
		if _, bad := fmt.Println(text); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	return labStopped(ctx, err)
}

// chooseMachines returns the machines to end. Dead ones have been removed.
func (d *labDown) chooseMachines(f *cli.Flags, name string, running []*hold.Machine, dead []*hold.Info) ([]*hold.Machine, error) {
	cleared := false
	for _, i := range dead {
		if d.all || name == "" || name == i.Name {
			fmt.Println(cli.CleanText(i.Death()))
			cleared = true
			continue
		}
		fmt.Fprintln(os.Stderr, "skep:", cli.CleanText(i.Death()))
	}
	others := len(running)
	if !d.all {
		running = labOffered(running, name)
		others -= len(running)
	}
	if d.all || (name == "" && len(running) == 1) {
		return running, nil
	}
	for _, m := range running {
		if m.Name == name {
			return []*hold.Machine{m}, nil
		}
	}
	switch {
	case cleared && name != "", cleared && len(running) == 0:
		return nil, nil
	case name == "" && len(running) == 0 && others > 0:
		return nil, f.Usagef("the running machines are for one command each: name one, or give --all")
	case name == "" && len(running) == 0:
		return nil, cli.Errorf(cli.Failed, "no machine runs here")
	case name == "":
		return nil, f.Usagef("several machines run, name one of them or give --all: %s", hold.JoinNames(running))
	case len(running) == 0:
		return nil, cli.Errorf(cli.Unreachable, "no machine is named %s, and none runs", name)
	}
	return nil, cli.Errorf(cli.Unreachable, "no machine is named %s; these run: %s", name, hold.JoinNames(running))
}
