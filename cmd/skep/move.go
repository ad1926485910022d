// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

// moveProgram moves movable programs of skep exec, and lists them.
type moveProgram struct {
	state string
	json  bool
}

func (m *moveProgram) options(f *cli.Flags) {
	f.StringVar(&m.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&m.json, "json", false, "print JSON, for programs")
}

func (m *moveProgram) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) > 2 {
		return f.RefuseArgs(words[2:])
	}
	c, err := openControl(m.state)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return m.list(ctx, c)
	}
	node := ""
	if len(words) == 2 {
		node = words[1]
	}
	i, err := c.MoveJob(ctx, words[0], node)
	if err != nil {
		return withExitCode(err)
	}
	if m.json {
		return cli.PrintJSON(os.Stdout, i)
	}
	_, err = fmt.Printf("job %s runs on %s; it stood still for %d ms, and %s were sent\n", i.Job, i.Node,
		time.Duration(i.PauseNS).Milliseconds(), cli.FormatBytes(uint64(i.Bytes)))
	return err
}

func (m *moveProgram) list(ctx context.Context, c *hub.Client) error {
	list, err := c.Jobs(ctx)
	if err != nil {
		return withExitCode(err)
	}
	if m.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("JOB", "NODE", "STATE", "MOVES", "SINCE", "PROGRAM")
	for _, i := range list {
		table.Row(i.Job, i.Node, i.State, i.Moves, cli.FormatAgo(i.Began), i.Program)
	}
	return table.Write(os.Stdout)
}

// checkpoint saves a movable program.
type checkpoint struct {
	state string
}

func (p *checkpoint) options(f *cli.Flags) {
	f.StringVar(&p.state, "state", "", "the hub's `DIR`, as given to skep up")
}

func (p *checkpoint) run(ctx context.Context, f *cli.Flags, words []string) error {
	job, err := oneWord(f, words)
	if err != nil {
		return err
	}
	if job == "" {
		return f.Expectf("a job is expected: skep move lists them")
	}
	c, err := openControl(p.state)
	if err != nil {
		return err
	}
	i, err := c.CheckpointJob(ctx, job)
	if err != nil {
		return withExitCode(err)
	}
	_, err = fmt.Printf("job %s was saved; it stood still for %d ms, and %s were sent\n", i.Job,
		time.Duration(i.PauseNS).Milliseconds(), cli.FormatBytes(uint64(i.Bytes)))
	return err
}
