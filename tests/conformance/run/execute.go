// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"skep/tests/watch"
)

// An outcome is the observable result of a run.
type outcome struct {
	stdout, stderr, report string
	code                   int // 128 + n for death by signal n
	late                   bool
}

// environment is the environment of every program. The host's is not inherited.
var environment = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C", "LC_ALL=C", "TZ=UTC", "CONF_ENV=from the runner"}

// executeCase runs c natively (sub is nil) or under a substrate, in a new directory. It
// kills the program at its time limit.
func executeCase(o options, sub *substrate, c testCase) (outcome, error) {
	dir, err := freshDir(o, sub, c)
	if err != nil {
		return outcome{}, err
	}
	if !o.keep {
		defer os.RemoveAll(dir)
	}
	work := filepath.Join(dir, "work")
	report := filepath.Join(dir, "report")
	argv := append([]string{c.file}, c.args...)
	env := environment
	if sub != nil {
		argv = sub.command(report, argv)
		env = append(append([]string{}, environment...), sub.env...)
	}
	out, err := runGroup(argv, env, work, c.stdin, sub.caseTimeout(c))
	if text, err := os.ReadFile(report); err == nil {
		out.report = string(text)
	}
	if o.keep {
		os.WriteFile(filepath.Join(dir, "stdout"), []byte(out.stdout), 0o644)
		os.WriteFile(filepath.Join(dir, "stderr"), []byte(out.stderr), 0o644)
	}
	return out, err
}

func freshDir(o options, sub *substrate, c testCase) (string, error) {
	name := "native"
	if sub != nil {
		name = sub.name
	}
	dir := filepath.Join(o.scratch, name, strings.ReplaceAll(c.name, " ", "_"))
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", err
	}
	return dir, makeFixture(work, c.fixture)
}

// runGroup runs a command in its own process group and reads its output to the end.
func runGroup(argv, env []string, dir, stdin string, limit time.Duration) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 2 * time.Second
	late, err := watch.Run(cmd, limit)
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return outcome{}, err
	}
	return outcome{stdout: stdout.String(), stderr: stderr.String(),
		code: watch.ExitCode(cmd.ProcessState), late: late}, nil
}
