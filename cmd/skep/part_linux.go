// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

func partWords() []command {
	return []command{
		{name: "part create", usage: "part create --cpus LIST --mem SIZE [--name NAME] [--split]", runner: &partCreate{},
			summary: "take cores and memory from Linux"},
		{name: "part list", usage: "part list [--json]", runner: &partList{},
			summary: "list the partitions"},
		{name: "part run", usage: "part run [--on PARTITION] [--ledger FILE] -- ./program [ARGS]", runner: &partRun{}, program: true,
			summary: "run a static Linux program on a partition, with Linux's files and streams"},
		{name: "part linux", usage: "part linux [--on PARTITION | --cpus LIST --mem SIZE] [--kernel FILE] [--append WORDS] [--net [--address ADDRESS]] [--disk FILE] [--detach] --initrd FILE | --root FOLDER [-- PROGRAM [ARGS]]", runner: &partBoot{}, program: true,
			summary: "boot a Linux kernel on a partition, with a console"},
		{name: "part console", usage: "part console [NAME | NUMBER]", runner: &partConsole{},
			summary: "show the console of a kernel that part linux --detach booted"},
		{name: "part hold", usage: "part hold", runner: &partHold{}, hidden: true,
			summary: "hold the console of a kernel"},
		{name: "part stats", usage: "part stats [--json] [PARTITION | --ledger FILE]", runner: &partStats{},
			summary: "show the interruptions and system calls of the last run on a partition"},
		{name: "part release", usage: "part release NAME | NUMBER | --all", runner: &partRelease{},
			summary: "return a partition's cores and memory to Linux"},
		{name: "part allow", usage: "part allow [--group GROUP --cpus LIST --mem SIZE | --nobody]", runner: &partAllow{},
			summary: "set or show what users other than root may lend"},
	}
}

// partError maps the module's refusals to exit codes.
func partError(err error) error {
	var refused *lent.RefusedError
	switch {
	case errors.As(err, &refused):
		return cli.Errorf(cli.Refused, "%s", cli.CleanText(refused.Why))
	case errors.Is(err, context.Canceled):
		return cli.Errorf(exitStopped, "stopped before the partition was created: Linux has its cores and memory back, or gets them back now")
	}
	return err
}

// partSizes parses --cpus and --mem.
func partSizes(cpus, memory string) (c lent.CPUs, m lent.Memory, err error) {
	if c, err = lent.ParseCPUs(cpus); err != nil {
		return c, m, cli.WithCode(cli.Usage, err)
	}
	m, err = lent.ParseMemory(memory, lent.NodesOf(c), cli.ParseBytes)
	return c, m, cli.WithCode(cli.Usage, err)
}
