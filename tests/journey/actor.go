// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"skep/tests/watch"
)

// start starts a background process: a hub, an agent or a command.
func (s *stage) start(name string, env []string, argv ...string) (*watch.Actor, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return s.Start(name, cmd)
}

// An outcome is the output and exit code of a command.
type outcome struct {
	stdout, stderr string
	code           int
	wall           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d after %v\nstdout: %.800s\nstderr: %.800s", o.code, o.wall.Round(time.Millisecond), o.stdout, o.stderr)
}

// run runs a command and waits for its end. A command that does not end fails the test.
func (s *stage) run(stdin io.Reader, argv ...string) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(append(os.Environ(), wineEnv(s.o)...), "TMPDIR="+s.tmpDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	begin := time.Now()
	late, err := watch.Run(cmd, later)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{stdout.String(), stderr.String(), watch.ExitCode(cmd.ProcessState), time.Since(begin)}
	if late {
		return o, fmt.Errorf("%s hangs: %v", strings.Join(argv, " "), o)
	}
	return o, nil
}

// checkOutcome checks an outcome: code, all of stdout unless it is any, and words that
// stderr must have; an error of skep is one sentence on one line.
func (o outcome) checkOutcome(code int, stdout string, words ...string) error {
	if o.code != code || (stdout != any && o.stdout != stdout) {
		return fmt.Errorf("wanted exit code %d and stdout %.800q, got %v", code, stdout, o)
	}
	for _, word := range words {
		if !strings.Contains(o.stderr, word) {
			return fmt.Errorf("stderr lacks %q: %v", word, o)
		}
	}
	if len(words) > 0 && strings.Count(o.stderr, "\n") != 1 {
		return fmt.Errorf("wanted one line on stderr: %v", o)
	}
	return nil
}

const any = "\x00any"
