// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"slices"
	"strings"

	"skep/dynamos/update"
	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
	lent "skep/shimos/part"
)

func systemOptionValues(command, option string) completer {
	switch {
	case option == "kernel":
		return constant(labs.Series()...)
	case option == "on" && (command == "part run" || command == "part linux"):
		return offerPartitions
	case option == "name" && command == "lab run":
		return offerMachines
	}
	return nil
}

func systemWordValues(command string) completer {
	switch command {
	case "lab shell", "lab down":
		return offerMachines
	case "part stats", "part release", "part console":
		return offerPartitions
	case "update policy", "update status", "update commit", "update revert", "update remove":
		return offerUpdates
	}
	return nil
}

func offerMachines(context.Context, *cli.Flags, string) []string {
	build, err := labBuild()
	if err != nil {
		return nil
	}
	running, _, err := hold.List(build)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range running {
		names = append(names, m.Name)
	}
	return names
}

func offerPartitions(context.Context, *cli.Flags, string) []string {
	list, err := lent.List()
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range list {
		names = append(names, cli.CleanText(i.Name))
	}
	return slices.DeleteFunc(names, func(n string) bool { return strings.TrimSpace(n) == "" })
}

func offerUpdates(context.Context, *cli.Flags, string) []string {
	var names []string
	withDevice(func(d *update.Device) error {
		list, err := update.List(d, updateNames())
		for _, u := range list {
			names = append(names, u.Name)
		}
		return err
	})
	return names
}
