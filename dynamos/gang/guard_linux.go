// SPDX-License-Identifier: MIT

package gang

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
)

// A guard is a process that outlives skep, and lets go on what skep has stopped. A skep that is
// killed can do nothing itself, and the kernel keeps a group frozen without anybody.
type guard struct {
	command *exec.Cmd
	in      *os.File      // its end tells the guard
	ended   chan struct{} // closed when the guard is gone
}

// Words before the folder in a guard's command line; behind it is the memory.low to be restored.
const (
	guardThaws   = "thaw"
	guardRemoves = "remove"
)

// startGuard starts the guard of these groups, which need not exist yet. self is the command that
// runs RunGuard with the words behind it.
func startGuard(self []string, groups []*group) (*guard, error) {
	args := self[1:]
	for _, g := range groups {
		word := guardThaws
		if g.ours {
			word = guardRemoves
		}
		args = append(args, word, g.dir, g.low)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ready, answer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close(), in.Close())
	}
	defer ready.Close()
	g := &guard{exec.Command(self[0], args...), in, make(chan struct{})}
	g.command.Stdin, g.command.Stdout, g.command.Stderr = out, answer, os.Stderr
	g.command.Dir = "/"
	// Neither the terminal nor what ends skep's session may end it.
	g.command.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	err = g.command.Start()
	out.Close()
	answer.Close()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("the guard cannot be started: %w", err)
	}
	go func() {
		g.command.Wait()
		close(g.ended)
	}()
	if n, _ := ready.Read(make([]byte, 1)); n != 1 {
		in.Close()
		return nil, errors.New("the guard ended at once")
	}
	return g, nil
}

// close ends the guard, which does once more what the caller has done.
func (g *guard) close() {
	g.in.Close()
	<-g.ended
}

// RunGuard is the guard's main function. It says that it is ready, waits until skep has ended, and
// thaws or removes the groups that the words name.
func RunGuard(words []string, in io.Reader, out io.Writer) error {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE)
	var groups []*group
	for ; len(words) >= 3; words = words[3:] {
		groups = append(groups, &group{dir: words[1], ours: words[0] == guardRemoves, low: words[2], begun: true})
	}
	if len(words) != 0 || len(groups) == 0 {
		return errors.New("the guard of gangs is started by skep gang only")
	}
	if _, err := out.Write([]byte{'\n'}); err != nil {
		return err
	}
	io.Copy(io.Discard, in)
	var failed error
	for _, g := range groups {
		failed = errors.Join(failed, g.release())
	}
	return failed
}
