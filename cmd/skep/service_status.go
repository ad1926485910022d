// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"os"

	"skep/internal/cli"
)

type serviceStatus struct{ user, json bool }

func (s *serviceStatus) options(f *cli.Flags) {
	userOption(f, &s.user)
	f.BoolVar(&s.json, "json", false, "print JSON for programs")
}

// A serviceState is the state of a service according to systemd or Windows.
type serviceState struct {
	Service  string `json:"service"`
	State    string `json:"state"`
	AtBoot   string `json:"atBoot"`
	PID      string `json:"pid"`
	Restarts string `json:"restarts"`
	Says     string `json:"says"`
}

func (s *serviceStatus) run(_ context.Context, f *cli.Flags, words []string) error {
	names := serviceNames()
	if len(words) > 0 {
		name, err := onlyService(f, words)
		if err != nil {
			return err
		}
		names = []string{name}
	}
	list, err := listStates(names, s.user)
	if err != nil {
		return err
	}
	if len(words) > 0 && len(list) == 0 {
		return errMissing(names[0], s.user)
	}
	return s.print(list)
}

// print prints the states. If a service does not run, the error has the exit code of an
// unreachable one.
func (s *serviceStatus) print(list []serviceState) error {
	var err error
	if s.json {
		err = cli.PrintJSON(os.Stdout, list)
	} else {
		table := cli.NewTable("SERVICE", "STATE", "AT BOOT", "PID", "RESTARTS", "SAYS")
		for _, v := range list {
			table.Row(v.Service, v.State, v.AtBoot, orDash(v.PID), orDash(v.Restarts), orDash(v.Says))
		}
		err = table.Write(os.Stdout)
	}
	for _, v := range list {
		if err == nil && v.PID == "" && v.Service != kernelService {
			err = cli.Exit(cli.Unreachable)
		}
	}
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
