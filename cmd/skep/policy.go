// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"skep/grid/policy"
)

func policyWords() []command {
	return []command{
		{name: "policy check", usage: "policy check FILE | NAME", runner: &policyCheck{},
			summary: "read a policy, and say what it permits"},
		{name: "policy why", usage: "policy why [--state DIR] [--json] [FILE | NAME]", runner: &policyWhy{},
			summary: "show what this machine's sources say, and what the policy permits now"},
	}
}

// readPolicy reads a policy from a file, or gives one of the built-in ones by its name.
func readPolicy(name string) (*policy.Policy, error) {
	text, ok := policy.BuiltinText(name)
	b := []byte(text)
	if !ok {
		var err error
		if b, err = readPolicyFile(name); err != nil {
			return nil, err
		}
	}
	p, err := policy.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, lineErrors{name, err})
	}
	return p, nil
}

func readPolicyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		var path *os.PathError
		errors.As(err, &path)
		return nil, fmt.Errorf("the policy %s cannot be read: %w (there are also the policies %s)", name, path.Err, strings.Join(policy.BuiltinNames(), ", "))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, policy.TextMax+1))
	if err != nil {
		return nil, fmt.Errorf("the policy %s cannot be read: %w", name, err)
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), nil // Windows' editors write this mark
}

// lineErrors is one or more mistakes in a policy, each in a line of its own with the
// file's name.
type lineErrors struct {
	name string
	err  error
}

func (e lineErrors) Unwrap() error { return e.err }

func (e lineErrors) Error() string {
	return strings.ReplaceAll(e.err.Error(), "\n", "\n"+e.name+": ")
}
