// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"

	"skep/grid/hub"
	"skep/internal/cli"
)

// A page serves the hub's page to a browser of this user.
type page struct {
	state string
	port  int
	out   io.Writer // nil: standard output
}

func (p *page) options(f *cli.Flags) {
	f.StringVar(&p.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.Func("port", "serve it on the port `N` of this machine (default: a free one)", func(s string) (err error) {
		p.port, err = strconv.Atoi(s)
		if err != nil || p.port < 1 || p.port > 65535 {
			return fmt.Errorf("want a port, from 1 to 65535")
		}
		return nil
	})
}

func (p *page) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(p.state)
	if err != nil {
		return err
	}
	if _, err := c.Status(ctx); err != nil {
		return withExitCode(err)
	}
	relay, err := hub.NewPageRelay(c, p.port)
	if err != nil {
		return cli.Errorf(cli.Failed, "the page cannot be served: give another --port, or none for a free one: %w", err)
	}
	if p.out == nil {
		p.out = os.Stdout
	}
	if _, err := fmt.Fprintln(p.out, relay.Link()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "skep: open this link on this machine; whoever has it can read the page. Ctrl-C ends it")
	return relay.Serve(ctx)
}
