// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"

	"skep/grid/detach"
	"skep/internal/cli"
)

// attach shows the output of a detached run.
type attach struct{ state string }

func (a *attach) options(f *cli.Flags) {
	f.StringVar(&a.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (a *attach) run(ctx context.Context, f *cli.Flags, words []string) error {
	state, err := stateDir(a.state)
	if err != nil {
		return err
	}
	all := detach.Open(state)
	var id string
	if len(words) > 0 {
		id, words = words[0], words[1:]
	} else if id, err = latestRun(all); err != nil {
		return namedRun(err)
	}
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	v, err := all.Read(id)
	if err != nil {
		return namedRun(err)
	}
	err = detach.Follow(ctx, all.Dir(id), os.Stdout, func() bool {
		if now, err := all.Read(id); err == nil {
			v = now
		}
		return v.State != detach.Running
	})
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "skep: the run goes on; 'skep attach %s' shows it again\n", id)
		return cli.Exit(exitStopped)
	case err != nil:
		return err
	case v.State == detach.Lost:
		return fmt.Errorf("run %s is lost: the process of skep that held it was killed, or the machine started again", id)
	}
	if v.Why != "" {
		fmt.Fprintf(os.Stderr, "skep: run %s: %s\n", id, v.Why)
	}
	return cli.Exit(v.Exit)
}

func latestRun(all detach.Runs) (string, error) {
	list, err := all.List()
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", detach.ErrNone
	}
	return list[len(list)-1].ID, nil
}
