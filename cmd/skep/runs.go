// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/grid/detach"
	"skep/internal/cli"
)

// runs lists detached runs.
type runs struct {
	state       string
	json        bool
	end, forget string
}

func (r *runs) options(f *cli.Flags) {
	f.StringVar(&r.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&r.json, "json", false, "print JSON, for programs")
	f.StringVar(&r.end, "end", "", "end the run `ID`")
	f.StringVar(&r.forget, "forget", "", "remove the output of run `ID`, which has ended")
}

func (r *runs) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if f.Given("end") && f.Given("forget") {
		return f.Usagef("give either --end or --forget")
	}
	state, err := stateDir(r.state)
	if err != nil {
		return err
	}
	all := detach.Open(state)
	switch {
	case f.Given("end"):
		return endRun(ctx, all, r.end)
	case f.Given("forget"):
		return namedRun(all.Forget(r.forget))
	}
	list, err := all.List()
	if err != nil {
		return err
	}
	if r.json {
		return cli.PrintJSON(os.Stdout, append([]detach.Record{}, list...))
	}
	table := cli.NewTable("ID", "STATE", "STARTED", "COMMAND")
	for _, v := range list {
		table.Row(v.ID, stateText(v), cli.FormatAgo(v.Started), cli.CleanText(strings.Join(v.Words, " ")))
	}
	return table.Write(os.Stdout)
}

func stateText(v detach.Record) string {
	if v.State == detach.Ended {
		return fmt.Sprintf("exit %d", v.Exit)
	}
	return string(v.State)
}

// namedRun adds the exit code to an error about a run.
func namedRun(err error) error {
	if errors.Is(err, detach.ErrNone) {
		return cli.WithCode(cli.Unreachable, err)
	}
	return err
}

// endPoll is how often a command checks whether a run has ended.
const endPoll = 100 * time.Millisecond

// endRun ends a run, and returns when it has ended.
func endRun(ctx context.Context, all detach.Runs, id string) error {
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for first := true; ; first = false {
		v, err := all.Read(id)
		switch {
		case err != nil:
			return namedRun(err)
		case v.State != detach.Running && first:
			return fmt.Errorf("run %s has ended already", id)
		case v.State != detach.Running:
			return nil
		case first:
			if err := endProcess(v.PID); err != nil {
				return fmt.Errorf("run %s cannot be ended: %w", id, err)
			}
		}
		select {
		case <-ctx.Done():
			return cli.Exit(exitStopped)
		case <-poll.C:
		}
	}
}
