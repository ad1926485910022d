// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// chooseConfinement finds the strongest confinement that works on this machine. A guard tries
// each, because a sysctl, a security module or a container may refuse what the kernel supports.
func (a *Agent) chooseConfinement() error {
	if err := checkAllowed(append(append([]string{}, a.config.Read...), a.config.Write...)); err != nil {
		return err
	}
	var why error
	for _, c := range a.listConfinements() {
		c.Network, c.Read, c.Write, c.Hide = a.config.Network, a.config.Read, a.config.Write, a.config.stateDirs()
		a.confined = c
		err := a.probeGuard()
		if err == nil {
			a.confined.open = stayOpen(&a.confined.bounds, landlockABI())
			return nil
		}
		if why == nil {
			why = err
		}
		a.config.Log("programs cannot be confined by %s: %v", c.Kind, err)
	}
	return fmt.Errorf("no program can be started here: %w", why)
}

// listConfinements lists the candidates, the strongest first.
func (a *Agent) listConfinements() []confinement {
	if a.config.confine != nil {
		return []confinement{{bounds: *a.config.confine}}
	}
	list := []confinement{{bounds: bounds{Kind: ConfinedSpaces, User: true}}}
	if os.Geteuid() == 0 {
		list = []confinement{
			{bounds: bounds{Kind: ConfinedSpaces, User: true, RunAs: nobody}},
			{bounds: bounds{Kind: ConfinedSpaces, RunAs: nobody}},
			{bounds: bounds{Kind: ConfinedSpaces, User: true}},
		}
	}
	return append(list, confinement{bounds: bounds{Kind: ConfinedLandlock}}, confinement{bounds: bounds{Kind: ConfinedNot}})
}

// probeGuard starts a guard without a program: it sets the bounds and checks them.
func (a *Agent) probeGuard() error {
	dir, err := a.makeOwn(a.ownArea(), "p")
	if err != nil {
		return err
	}
	defer RemoveAll(dir)
	b := a.boundsFor([]string{dir}, nil)
	b.Probe = true
	p, err := a.start(&command{dir: dir, bounds: b})
	if err != nil {
		return err
	}
	<-p.done
	if p.exit.Error != "" {
		return errors.New(p.exit.Error)
	}
	return nil
}

// stayOpen lists what a confinement leaves open on a kernel with this version of Landlock.
func stayOpen(b *bounds, abi int) []string {
	var open []string
	if b.Network {
		open = append(open, "the network, as its owner allowed")
	}
	switch {
	case b.Kind == ConfinedSpaces && b.Network && abi < abiScopes:
		open = append(open, "abstract sockets of other programs (Linux 6.12 closes them)")
	case b.Kind == ConfinedLandlock:
		open = append(open, "the names and sizes of files", "the priorities of other processes of this user")
		if abi < abiScopes {
			open = append(open, "signals to other processes of this user (Linux 6.12 closes them)")
		}
		if abi < abiTruncate {
			open = append(open, "the truncation of files of this user (Linux 6.2 closes it)")
		}
	case b.Kind == ConfinedNot:
		open = append(open, "all that the agent's user may read, write and end, keys of skep too")
	}
	return open
}

// sysProcAttr returns the attributes with which a program's guard is started. Its
// session is its own, so that the program cannot reach a terminal.
func (b *bounds) sysProcAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if b.Kind != ConfinedSpaces {
		return attr
	}
	attr.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !b.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if !b.User {
		return attr
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	// Users keep their numbers. Root in the new namespace is root of this
	// machine, who owns the agent's files; programs run as another user.
	attr.UidMappings = idMap(os.Geteuid(), b.RunAs)
	attr.GidMappings = idMap(os.Getegid(), b.RunAs)
	attr.GidMappingsEnableSetgroups = b.RunAs != 0
	if os.Geteuid() != 0 {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN,
			unix.CAP_SETPCAP, unix.CAP_SYS_RESOURCE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_PTRACE}
	}
	return attr
}

func idMap(ids ...int) []syscall.SysProcIDMap {
	var m []syscall.SysProcIDMap
	for _, id := range ids {
		if id != 0 || len(m) == 0 {
			m = append(m, syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1})
		}
	}
	return m
}

// verify checks from inside that the bounds are effective.
func (b *bounds) verify() error {
	if b.Kind == ConfinedNot {
		return nil
	}
	if b.Kind == ConfinedSpaces && os.Getpid() != 1 {
		return errors.New("it is not in a PID namespace of its own")
	}
	for _, dir := range b.Hide {
		names, err := os.ReadDir(dir)
		if err == nil && b.Kind == ConfinedLandlock {
			return fmt.Errorf("%s can be read", dir)
		}
		for _, e := range names {
			if !b.leadsToOwn(filepath.Join(dir, e.Name())) {
				return fmt.Errorf("%s of %s can be seen", e.Name(), dir)
			}
		}
	}
	return nil
}

// leadsToOwn reports whether a file of the program is at a path or below.
func (b *bounds) leadsToOwn(path string) bool {
	return slices.ContainsFunc(slices.Concat(b.Write, b.Read), func(own string) bool { return isWithin(own, path) })
}
