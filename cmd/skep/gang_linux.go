// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"skep/dynamos/gang"
	"skep/internal/cli"
)

func gangWords() []command {
	return []command{
		{name: "gang run", usage: "gang run [--period TIME] [--cgroup DIR] [--paging LIST] [--log FILE] [-- ./program [ARGS] [: ./program [ARGS]]]", runner: &gangRun{}, program: true,
			summary: "let programs or control groups take turns on this machine"},
		{name: "gang guard", usage: "gang guard", runner: &gangGuard{}, hidden: true,
			summary: "let go on what a gang run has stopped when it ends"},
	}
}

const (
	gangPeriod    = 10 * time.Second
	gangPeriodMin = 100 * time.Millisecond
)

type gangRun struct {
	period  time.Duration
	cgroups []string
	log     string
	paging  gang.Paging
}

func (g *gangRun) options(f *cli.Flags) {
	f.DurationVar(&g.period, "period", gangPeriod, "let each gang run for this `TIME`")
	f.Func("cgroup", "the control group `DIR` is a gang, with all below it (any number of times)", func(dir string) error {
		g.cgroups = append(g.cgroups, dir)
		return nil
	})
	f.Func("paging", "between two turns, move pages as `LIST` says: selective, aggressive, adaptive or all (none)", func(text string) (err error) {
		g.paging, err = gang.ParsePaging(text)
		return err
	})
	f.StringVar(&g.log, "log", "", "write a line of JSON per turn to `FILE`")
}

// splitPrograms splits words at each colon.
func splitPrograms(words []string) (programs [][]string) {
	for begin := 0; begin <= len(words); {
		end := slices.Index(words[begin:], ":")
		if end < 0 {
			end = len(words) - begin
		}
		programs = append(programs, words[begin:begin+end])
		begin += end + 1
	}
	return programs
}

func (g *gangRun) run(ctx context.Context, f *cli.Flags, words []string) error {
	var programs [][]string
	if len(words) > 0 {
		programs = splitPrograms(words)
	}
	switch n := len(g.cgroups) + len(programs); {
	case slices.ContainsFunc(programs, func(p []string) bool { return len(p) == 0 }):
		return f.Usagef("a program is expected on each side of a colon")
	case n == 0:
		return f.Expectf("gangs are expected")
	case n == 1:
		return f.Usagef("two gangs at least take turns: separate programs by a colon, as in './a : ./b', or give --cgroup twice")
	case g.period < gangPeriodMin:
		return f.Usagef("--period takes a time of %v at least, as 10s", gangPeriodMin)
	}
	for _, p := range programs {
		path, err := exec.LookPath(p[0])
		if err != nil {
			return notRun(p[0], err)
		}
		p[0] = path
	}
	return g.rotate(ctx, programs)
}

func (g *gangRun) rotate(ctx context.Context, programs [][]string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	job := &gang.Job{Period: g.period, Groups: g.cgroups, Programs: programs, Paging: g.paging, Guard: []string{self, "gang", "guard"}}
	if g.log != "" {
		log, err := os.Create(g.log)
		if err != nil {
			return err
		}
		defer log.Close()
		job.Log = log
	}
	job.Began = func() {
		text := fmt.Sprintf("%d gangs take turns of %v", len(g.cgroups)+len(programs), g.period)
		if len(programs) == 0 { // whose output would be mixed with it
			fmt.Println(text)
		}
		openNotifier(ctx).Ready(text)
	}
	codes, err := gang.Run(ctx, job)
	return gangError(codes, err)
}

// gangError returns the error with which skep ends: its own, or that of the first program that
// failed.
func gangError(codes []int, err error) error {
	var refused *gang.RefusedError
	var start *gang.StartError
	switch {
	case errors.As(err, &refused):
		return cli.Errorf(cli.Refused, "%s", cli.CleanText(refused.Why))
	case errors.As(err, &start):
		return notRun(start.Path, start.Err)
	case errors.Is(err, context.Canceled):
		return cli.Exit(exitStopped)
	case err != nil:
		return err
	}
	for _, code := range codes {
		if code != 0 {
			return cli.Exit(code)
		}
	}
	return nil
}

// gangGuard is the process that outlives a gang run.
type gangGuard struct{}

func (g *gangGuard) options(*cli.Flags) {}

func (g *gangGuard) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return f.Usagef("skep gang run alone starts it")
	}
	return gang.RunGuard(words, os.Stdin, os.Stdout)
}
