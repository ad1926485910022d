// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"skep/internal/cli"
	"skep/internal/service"
)

// serviceRun is the service itself.
type serviceRun struct {
	state       string
	user, child bool
	passed      []string
}

func (s *serviceRun) options(f *cli.Flags) {
	f.StringVar(&s.state, "state", "", "keep data in `DIR`")
	f.BoolVar(&s.user, "user", false, "start the program and start it again after a failure, for a user who logged on")
	f.BoolVar(&s.child, "child", false, "be that program, until standard input ends")
}

func (s *serviceRun) splitArgs(f *cli.Flags, args []string) ([]string, error) {
	i := &serviceInstall{}
	args, err := i.splitArgs(f, args)
	s.passed = i.passed
	return args, err
}

func (s *serviceRun) run(ctx context.Context, f *cli.Flags, words []string) error {
	name, err := onlyService(f, words)
	if err != nil {
		return err
	}
	if s.state == "" {
		return f.Expectf("--state DIR is expected")
	}
	if _, err := serviceOptions(name, s.passed); err != nil {
		return err
	}
	p := &setup{installation: installation{name: name, passed: s.passed}, folder: s.state, state: filepath.Join(s.state, name)}
	if p.program, err = os.Executable(); err != nil {
		return err
	}
	program := func(ctx context.Context) int { return p.runProgram(ctx) }
	switch {
	case s.child:
		return exitWith(service.RunToEndOfInput(ctx, p.state, program))
	case s.user:
		service.HideConsole()
		l := &service.Logon{Name: entryName(name), Command: p.command("--child"), State: p.state}
		code, err := l.Serve(ctx, isLasting)
		if err != nil {
			return cli.WithCode(cli.Refused, err)
		}
		return exitWith(code)
	}
	h := &service.Host{Name: entryName(name), State: p.state, Run: program, Lasting: isLasting}
	return refusedBy(h.Serve())
}

// isLasting says which exit codes a restart does not cure.
func isLasting(code int) bool { return code == cli.Usage || code == cli.Refused }

func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return cli.Exit(code)
}

// runProgram is skep up or skep join with the options of the service. Its error
// goes where all its lines go.
func (p *setup) runProgram(ctx context.Context) int {
	words := []string{"join"}
	if p.name == hubService {
		words = []string{"up", "--no-agent", "--no-token"}
	}
	words = append(append(words, "--state", p.folder), p.passed...)
	code, text := cli.ExitCode(dispatch(ctx, words))
	if text != "" {
		fmt.Fprintln(os.Stderr, service.Priority(os.Stderr, slog.LevelError)+"skep: "+text)
	}
	return code
}
