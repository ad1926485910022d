// SPDX-License-Identifier: MIT

// Package cli is what the commands of skep share: exit codes, flags, tables,
// and progress on a terminal.
package cli

import (
	"errors"
	"fmt"
)

// Exit codes, as docs/errors.md lists them.
const (
	Failed      = 1
	Usage       = 2
	Unreachable = 3
	Refused     = 4
	Restart     = 75 // EX_TEMPFAIL of sysexits(3): a service that its unit starts again
)

// A coded error ends skep with its code.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string { return c.err.Error() }
func (c *coded) Unwrap() error { return c.err }

// Errorf returns an error that ends skep with the given code.
func Errorf(code int, format string, args ...any) error {
	return &coded{code, fmt.Errorf(format, args...)}
}

// WithCode gives err an exit code; nil stays nil.
func WithCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// An Exit ends skep with the status of the program that it ran, without a message.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitCode returns skep's exit status for err, and the text to print.
func ExitCode(err error) (code int, text string) {
	if err == nil {
		return 0, ""
	}
	var exit Exit
	if errors.As(err, &exit) {
		return int(exit), ""
	}
	var c *coded
	if errors.As(err, &c) {
		return c.code, err.Error()
	}
	return Failed, err.Error()
}
