// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"syscall"

	"skep/internal/cli"
)

type serviceUninstall struct {
	root        string
	user, purge bool
}

func (s *serviceUninstall) options(f *cli.Flags) {
	f.StringVar(&s.root, "root", "", "remove the files below `DIR`, and stop nothing")
	f.BoolVar(&s.purge, "purge", false, "remove its state too, after you typed the service's name on standard input")
	userOption(f, &s.user)
}

func (s *serviceUninstall) run(_ context.Context, f *cli.Flags, words []string) error {
	name, err := onlyService(f, words)
	if err != nil {
		return err
	}
	if s.root != "" && (s.user || s.purge) {
		return f.Usagef("--root goes with neither --user nor --purge")
	}
	p := &setup{installation: installation{name: name}}
	if p.systemd, err = newSystemd(s.root, s.user); err != nil {
		return err
	}
	if s.root == "" {
		if err := needSystemd(s.user); err != nil {
			return err
		}
	}
	state, err := p.stateFolder()
	if err == nil && s.purge {
		err = confirmPurge(os.Stdin, name, state)
	}
	if err != nil {
		return err
	}
	return p.remove(state, s.purge)
}

// stateFolder returns the state directory, which remains when a service is removed.
func (p *setup) stateFolder() (string, error) {
	if p.name == kernelService {
		return kernelState, nil
	}
	if !p.systemd.User {
		return filepath.Join(systemState, p.name), nil
	}
	dir, err := stateDir("")
	return filepath.Join(dir, p.name), err
}

func (p *setup) remove(state string, purge bool) error {
	unit := unitName(p.name)
	live := p.systemd.Root == ""
	if live && p.systemd.Installed(unit) {
		if _, err := p.systemd.Control("disable", "--now", "--quiet", unit); err != nil {
			return err
		}
	}
	u, err := p.unit()
	if err != nil {
		return err
	}
	changed, err := p.systemd.Uninstall(u)
	if err != nil {
		return err
	}
	if p.name == kernelService {
		more, err := p.removeModules()
		if err != nil {
			return err
		}
		changed = changed || more
	}
	if live && changed {
		if _, err := p.systemd.Control("daemon-reload"); err != nil {
			return err
		}
	}
	if packaged := p.systemd.Packaged(unit); packaged != "" {
		fmt.Printf("%s belongs to a package, and stays: it is stopped, and does not start at boot\n", packaged)
	} else if !changed {
		fmt.Printf("%s is not installed: nothing to remove\n", unit)
	}
	if !live && p.name != kernelService {
		return p.forgetAccount()
	}
	if !live {
		return nil
	}
	return p.leaveState(state, purge)
}

// leaveState removes the state, or prints where it is.
func (p *setup) leaveState(state string, purge bool) error {
	if _, err := os.Stat(state); err == nil {
		if !purge {
			fmt.Printf("its state stays in %s: 'skep service uninstall %s --purge' removes it\n", state, p.name)
			return nil
		}
		if err := os.RemoveAll(state); err != nil {
			return err
		}
		fmt.Printf("removed %s\n", state)
	}
	if p.systemd.User || p.name == kernelService {
		return nil
	}
	if left, err := os.ReadDir(systemState); err == nil && len(left) > 0 {
		return nil // it has files of the other service or of an administrator
	}
	return p.removeAccount()
}

// removeAccount removes the parent folder of the states, and the account if skep created
// it, when no service is left.
func (p *setup) removeAccount() error {
	for _, other := range []string{hubService, agentService} {
		if p.systemd.Installed(unitName(other)) {
			return nil
		}
	}
	err := os.Remove(systemState)
	if errors.Is(err, syscall.EBUSY) { // an administrator mounted it
		fmt.Printf("%s stays: it is the root of a mount\n", systemState)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.forgetAccount()
}

func (p *setup) forgetAccount() error {
	for _, other := range []string{hubService, agentService} {
		if p.systemd.User || p.systemd.Installed(unitName(other)) {
			return nil
		}
	}
	ours, err := p.systemd.RemoveFile(filepath.Join("/", p.systemd.Root, sysusersFile))
	if err != nil || !ours || p.systemd.Root != "" {
		return err
	}
	if _, err := user.Lookup(serviceAccount); err != nil {
		return nil
	}
	if err := runAccountTool("userdel", serviceAccount); err != nil {
		return err
	}
	fmt.Printf("removed the account %s\n", serviceAccount)
	return nil
}
