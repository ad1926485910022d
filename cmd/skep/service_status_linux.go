// SPDX-License-Identifier: MIT

package main

import "skep/internal/service"

// listStates asks systemd how the services do. A service that is not installed
// has no row.
func listStates(names []string, user bool) ([]serviceState, error) {
	if !service.Runs() {
		return nil, needSystemd(true)
	}
	systemd, err := newSystemd("", user)
	if err != nil {
		return nil, err
	}
	list := []serviceState{}
	for _, name := range names {
		if !systemd.Installed(unitName(name)) {
			continue
		}
		p, err := systemd.Properties(unitName(name), "ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "StatusText")
		if err != nil {
			return nil, err
		}
		if p["MainPID"] == "0" {
			p["MainPID"] = ""
		}
		list = append(list, serviceState{Service: name, State: p["ActiveState"] + " (" + p["SubState"] + ")",
			AtBoot: p["UnitFileState"], PID: p["MainPID"], Restarts: p["NRestarts"], Says: p["StatusText"]})
	}
	return list, nil
}

// errMissing says how to install a service.
func errMissing(name string, user bool) error {
	return checkInstalled(&service.Systemd{User: user}, name)
}
