// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"skep/internal/cli"
	labs "skep/lab"
	lent "skep/shimos/part"
)

type partConsole struct{}

func (p *partConsole) options(*cli.Flags) {}

func (p *partConsole) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) > 1 {
		return f.Expectf("at most one partition is expected, by name or number")
	}
	c, err := findConsole(lent.HeldFolder, strings.Join(words, ""))
	if err != nil {
		return consoleError(err)
	}
	defer c.Close()
	end, err := attachConsole(ctx, c)
	if err != nil {
		return consoleError(err)
	}
	if end == nil {
		return nil
	}
	if end.Note != "" {
		fmt.Fprintln(os.Stderr, "skep: "+cli.CleanText(end.Note))
	}
	return endError(*end)
}

// consoleError maps errors of consoles to exit codes.
func consoleError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return cli.Errorf(cli.Refused, "only root can show the console of a kernel: %v", err)
	}
	return partError(err)
}

// endError returns the error of an end that another process had.
func endError(e lent.End) error {
	if e.Text != "" {
		return cli.Errorf(e.Code, "%s", e.Text)
	}
	return cli.Exit(e.Code)
}

// findConsole finds the console that a word names, or says why there is none.
func findConsole(dir, word string) (*lent.Console, error) {
	c, err := lent.FindConsole(dir, word)
	if c != nil || err != nil {
		return c, err
	}
	const how = "'skep part linux --detach' boots a kernel whose console can be shown"
	if word == "" {
		return nil, &lent.RefusedError{Why: "there is no kernel without a console: " + how}
	}
	i, err := lent.FindPartition(word)
	switch {
	case err != nil:
		return nil, err
	case i.PID == 0:
		return nil, &lent.RefusedError{Why: fmt.Sprintf("nothing runs on partition %s: %s", word, how)}
	}
	return nil, &lent.RefusedError{Why: fmt.Sprintf("what runs on partition %s has its console, if any, at process %d, which started it: %s", word, i.PID, how)}
}

// attachConsole shows a console on the standard streams. The terminal is as it was
// afterwards. Without an end and an error, the user left.
func attachConsole(ctx context.Context, c *lent.Console) (*lent.End, error) {
	ctx, stop := catchEnds(ctx)
	defer stop()
	again := fmt.Sprintf("'skep part console %d' shows it again", c.ID)
	s := lent.Screen{Input: os.Stdin, Output: os.Stdout, Escapes: isTerminal(os.Stdin), Dropped: func(n uint64) {
		fmt.Fprintf(os.Stderr, "skep: %d bytes of output before this are lost, because no console took them\n", n)
	}}
	if s.Escapes {
		sizes, quiet := consoleSizes(os.Stdin)
		defer quiet()
		s.Sizes = sizes
		fmt.Fprintf(os.Stderr, "skep: the console of partition %d; ~. at the beginning of a line leaves it\n", c.ID)
	}
	restore, err := quietTerminal(os.Stdin, true)
	if err != nil {
		return nil, err
	}
	end, err := c.Attach(ctx, s)
	restored := restore()
	var left *lent.LeftError
	switch {
	case errors.As(err, &left) && left.Untaken > 0:
		fmt.Fprintf(os.Stderr, "\nskep: %d bytes were typed that the kernel did not take; %s\n", left.Untaken, again)
		return nil, restored
	case errors.As(err, &left):
		fmt.Fprintf(os.Stderr, "\nskep: the kernel goes on; %s\n", again)
		return nil, restored
	case errors.Is(err, context.Canceled):
		return nil, errors.Join(restored, cli.Errorf(exitStopped, "the kernel goes on; %s", again))
	}
	return end, errors.Join(err, restored)
}

// consoleSizes sends the size of a terminal, at once and when it changes.
func consoleSizes(f *os.File) (<-chan [2]uint16, func()) {
	changed, quiet := followSize(f)
	sizes, over := make(chan [2]uint16, 1), make(chan struct{})
	if now, err := terminalSize(f); err == nil {
		sizes <- [2]uint16{now.Rows, now.Columns}
	}
	go func() {
		for {
			var s labs.Size
			select {
			case s = <-changed:
			case <-over:
				return
			}
			select {
			case sizes <- [2]uint16{s.Rows, s.Columns}:
			case <-over:
				return
			}
		}
	}()
	return sizes, func() {
		close(over)
		quiet()
	}
}
