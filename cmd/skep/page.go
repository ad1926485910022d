// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"skep/grid/hub"
	"skep/internal/atomicfile"
	"skep/internal/cli"
	"skep/internal/lazy"
)

// A page serves the hub's page to a browser of this user.
type page struct {
	state  string
	port   int
	secret string    // a file, or empty
	out    io.Writer // nil: standard output
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
	f.StringVar(&p.secret, "secret-file", "", "take the secret of the link from `FILE`, so that the link stays the same; a missing file is made, with a new secret (default: a new one each time)")
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
	secret, err := p.readSecret()
	if err != nil {
		return err
	}
	relay, err := hub.NewPageRelay(c, p.port, secret)
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

var linkSecret = lazy.Regexp(`^[A-Za-z0-9_-]{26,128}$`)

const secretMax = 4096 // bytes of the file

// readSecret returns the secret in the file, which it makes if there is none. It is empty without
// a file.
func (p *page) readSecret() (string, error) {
	if p.secret == "" {
		return "", nil
	}
	file, err := os.Open(p.secret)
	if errors.Is(err, os.ErrNotExist) {
		fresh := rand.Text()
		if err := atomicfile.Write(p.secret, []byte(fresh+"\n"), 0o600); err != nil {
			return "", cli.Errorf(cli.Failed, "a new secret cannot be stored: %w", err)
		}
		return fresh, nil
	}
	if err != nil {
		return "", cli.WithCode(cli.Usage, fmt.Errorf("the secret's file: %w", err))
	}
	defer file.Close()
	if isExposed(file) {
		return "", cli.WithCode(cli.Usage, fmt.Errorf("other users may read the secret in %s: type chmod 600 %[1]s, or remove it for a new secret", p.secret))
	}
	text, err := io.ReadAll(io.LimitReader(file, secretMax))
	secret := strings.TrimSpace(string(text))
	if err != nil || !linkSecret().MatchString(secret) {
		return "", cli.WithCode(cli.Usage, fmt.Errorf("%s holds no secret, which is one word of 26 to 128 letters, digits, - and _: remove the file, and skep page makes one", p.secret))
	}
	return secret, nil
}

// isExposed reports that other users may read or change the file. Modes on Windows do not say.
func isExposed(file *os.File) bool {
	info, err := file.Stat()
	return runtime.GOOS != "windows" && (err != nil || info.Mode().Perm()&0o077 != 0)
}
