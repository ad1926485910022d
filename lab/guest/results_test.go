// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// The SIGCHLD of a child that ends while the port drains does not fail a run.
func TestUninterrupted(t *testing.T) {
	gone := errors.New("gone")
	for _, tt := range []struct {
		name  string
		gives []error
		want  error
	}{
		{"once", []error{nil}, nil},
		{"interrupted twice", []error{unix.EINTR, unix.EINTR, nil}, nil},
		{"another error", []error{unix.EINTR, gone}, gone},
	} {
		calls := 0
		err := retryInterrupted(func() error { calls++; return tt.gives[calls-1] })
		if err != tt.want || calls != len(tt.gives) {
			t.Errorf("%s: %v after %d calls", tt.name, err, calls)
		}
	}
}
