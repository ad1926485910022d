// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

type token struct {
	state   string
	uses    int
	expires time.Duration
}

const (
	defaultExpiry = 24 * time.Hour
	usesMax       = 100000
)

func (t *token) options(f *cli.Flags) {
	f.StringVar(&t.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.IntVar(&t.uses, "uses", 1, "let `N` machines join with it (1)")
	f.DurationVar(&t.expires, "expires", defaultExpiry, "let it expire after `TIME`, such as 30m or 72h (24h)")
}

func checkToken(f *cli.Flags, uses int, expires time.Duration) error {
	if uses < 1 || uses > usesMax {
		return f.Usagef("--uses %d is not between 1 and %d", uses, usesMax)
	}
	if expires <= 0 {
		return f.Usagef("--expires %v is not in the future", expires)
	}
	return nil
}

func (t *token) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if err := checkToken(f, t.uses, t.expires); err != nil {
		return err
	}
	c, err := openControl(t.state)
	if err != nil {
		return err
	}
	return printToken(ctx, c, t.uses, t.expires)
}

// printToken gets a token from the hub and prints the join command for another machine. It has the
// token in the environment of the command, which other users cannot read.
func printToken(ctx context.Context, c *hub.Client, uses int, expires time.Duration) error {
	answer, err := c.Token(ctx, hub.TokenRequest{Uses: uses, Life: expires})
	if err != nil {
		return withExitCode(err)
	}
	if _, err = fmt.Printf("%s=%s skep join %s\n", tokenVariable, answer.Token, answer.Address); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "skep: the token is a secret, and other users can read command lines, but not the environment. In cmd.exe of Windows type 'set %s=...' on a line of its own. --token-file FILE reads the line above\n", tokenVariable)
	return nil
}
