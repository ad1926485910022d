// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"skep/grid/agent"
	"skep/internal/cli"
	"skep/internal/service"
)

type serviceUninstall struct{ user, purge bool }

func (s *serviceUninstall) options(f *cli.Flags) {
	f.BoolVar(&s.purge, "purge", false, "remove its state too, after you typed the service's name on standard input")
	userOption(f, &s.user)
}

func (s *serviceUninstall) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := onlyService(f, words)
	if err != nil {
		return err
	}
	p, err := newSetup(installation{name: name}, s.user)
	if err == nil && s.purge {
		err = confirmPurge(os.Stdin, name, p.state)
	}
	if err != nil {
		return err
	}
	var found bool
	if s.user {
		found, err = p.logon().Remove()
	} else {
		found, err = service.RemoveEntry(entryName(name), serviceMark(name))
	}
	if err != nil {
		return refusedBy(err)
	}
	if found {
		fmt.Printf("removed the service %s\n", entryName(name))
	} else {
		fmt.Printf("%s is not installed: nothing to remove\n", entryName(name))
	}
	return p.leaveState(s.purge)
}

// leaveState removes the state, or says where it is.
func (p *setup) leaveState(purge bool) error {
	if _, err := os.Stat(p.state); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !purge {
		user := ""
		if p.user {
			user = " --user"
		}
		fmt.Printf("its state stays in %s: 'skep service uninstall %s%s --purge' removes it\n", p.state, p.name, user)
		return nil
	}
	if err := agent.RemoveAll(p.state); err != nil {
		return err
	}
	fmt.Printf("removed %s\n", p.state)
	if left, err := os.ReadDir(p.folder); err != nil || len(left) > 0 || p.user {
		return err // the other service's
	}
	return os.Remove(p.folder)
}
