// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"

	"skep/grid/hub"
	"skep/grid/label"
	"skep/internal/cli"
)

// logs shows what workers wrote, including lines that skep run dropped because there were
// too many.
type logs struct {
	state string
	on    string
}

func (l *logs) options(f *cli.Flags) {
	f.StringVar(&l.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.StringVar(&l.on, "on", "all", "`SELECTOR`: any, all, or terms such as os=NAME, node=NAME, substrate=NAME, cpus>=N, memory>=SIZE and labels, with commas between them")
}

func (l *logs) run(ctx context.Context, f *cli.Flags, words []string) error {
	session := ""
	if len(words) > 0 {
		session, words = words[0], words[1:]
	}
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if _, err := label.Parse(l.on); err != nil {
		return f.Usagef("%v", err)
	}
	c, err := openControl(l.state)
	if err != nil {
		return err
	}
	chosen, err := c.Nodes(ctx, l.on)
	if err != nil {
		return noNode(err)
	}
	job := &job{client: c, stdin: newFan(strings.NewReader(""), len(chosen)), many: len(chosen) > 1}
	return job.runAll(ctx, chosen, hub.ExecRequest{Logs: true, Session: session})
}
