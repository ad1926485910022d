// SPDX-License-Identifier: MIT

package main

import (
	"strconv"

	"skep/internal/service"
)

// listStates asks Windows how the services do. A service that is not installed
// has no row.
func listStates(names []string, user bool) ([]serviceState, error) {
	list := []serviceState{}
	for _, name := range names {
		p, err := newSetup(installation{name: name}, user)
		if err != nil {
			return nil, err
		}
		v := serviceState{Service: name}
		if user {
			err = p.logonState(&v)
		} else {
			err = p.entryState(&v)
		}
		if err != nil {
			return nil, refusedBy(err)
		}
		if v.State != "" {
			list = append(list, v)
		}
	}
	return list, nil
}

func (p *setup) entryState(v *serviceState) error {
	e, err := service.QueryEntry(entryName(p.name))
	if service.IsMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	v.State, v.AtBoot, v.Says = e.State, e.AtBoot, service.ReadSays(p.state)
	v.PID = numberOrNone(int(e.PID))
	return nil
}

func (p *setup) logonState(v *serviceState) error {
	l := p.logon()
	if _, err := l.Installed(); err != nil {
		return nil
	}
	runs, err := l.Runs()
	if err != nil {
		return err
	}
	v.State, v.AtBoot, v.Says = "stopped", "at logon", service.ReadSays(p.state)
	if runs {
		pid, restarts := l.Process()
		v.State, v.PID, v.Restarts = "running", numberOrNone(pid), strconv.Itoa(restarts)
	}
	return nil
}

func numberOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// errMissing says how to install a service.
func errMissing(name string, user bool) error {
	if user {
		return notAtLogon(name)
	}
	_, err := service.QueryEntry(entryName(name))
	return refusedBy(err)
}
