// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
)

type labShell struct{ labProgram }

func (s *labShell) options(f *cli.Flags) {
	f.BoolVar(&s.user, "user", false, "as an ordinary user")
	f.IntVar(&s.node, "node", 0, "in the network of node `N`")
}

func (s *labShell) run(ctx context.Context, f *cli.Flags, words []string) error {
	name := ""
	if len(words) > 0 {
		name = words[0]
		if err := f.RefuseArgs(words[1:]); err != nil {
			return err
		}
	}
	if !isTerminal(os.Stdin) {
		return f.Usagef("a shell needs a terminal: use skep lab run")
	}
	build, err := labBuild()
	if err != nil {
		return err
	}
	m, err := findMachine(build, name)
	if err != nil {
		return err
	}
	if m == nil {
		return cli.Errorf(cli.Unreachable, "no machine runs: 'skep lab up' starts one and opens a shell")
	}
	if err := s.check(f, &m.Info); err != nil {
		return err
	}
	return labInteract(ctx, build, m, &s.labProgram)
}

// labInteract connects this terminal to a shell. The shell's exit status is ignored,
// because it is that of the last command typed.
func labInteract(ctx context.Context, build string, m *hold.Machine, p *labProgram) error {
	if err := p.chooseDir(ctx, m); err != nil {
		return err
	}
	size, err := terminalSize(os.Stdin)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGTERM, os.Interrupt)
	defer stop()
	restore, err := rawTerminal(os.Stdin)
	if err != nil {
		return err
	}
	sizes, quiet := followSize(os.Stdin)
	defer quiet()
	_, err = m.Exec(ctx, p.newProgram(build, []string{shellName()}),
		labs.Streams{In: os.Stdin, Out: os.Stdout, Terminal: &size, Resize: sizes})
	restore()
	return labEnd(0, err)
}

// shellName is the user's own shell, which the machine has too.
func shellName() string {
	if shell := os.Getenv("SHELL"); filepath.IsAbs(shell) {
		return shell
	}
	return "/bin/sh"
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// rawTerminal sets raw mode, so that every key goes to the guest, including Ctrl-C.
func rawTerminal(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *old
	passKeys(&raw)
	raw.Oflag &^= unix.OPOST
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	return func() { unix.IoctlSetTermios(fd, unix.TCSETS, old) }, nil
}

// passKeys makes a terminal pass on each key, and show none.
func passKeys(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
}

func terminalSize(f *os.File) (labs.Size, error) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return labs.Size{}, err
	}
	return labs.Size{Rows: w.Row, Columns: w.Col}, nil
}

// followSize sends every new size of the terminal.
func followSize(f *os.File) (<-chan labs.Size, func()) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	sizes, done := make(chan labs.Size), make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
			case <-done:
				return
			}
			size, err := terminalSize(f)
			if err != nil {
				continue
			}
			select {
			case sizes <- size:
			case <-done:
				return
			}
		}
	}()
	return sizes, func() {
		signal.Stop(changed)
		close(done)
	}
}
