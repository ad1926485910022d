// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

type partList struct{ json bool }

func (p *partList) options(f *cli.Flags) {
	f.BoolVar(&p.json, "json", false, "print JSON, for programs")
}

func (p *partList) run(_ context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	list, err := lent.List()
	if err != nil {
		return partError(err)
	}
	if p.json {
		if list == nil {
			list = []lent.Info{}
		}
		return cli.PrintJSON(os.Stdout, list)
	}
	if len(list) == 0 {
		_, err := fmt.Println("there is no partition: 'skep part create' makes one")
		return err
	}
	table := cli.NewTable("NUMBER", "NAME", "STATE", "CPUS", "MEMORY", "OWNER", "PID", "RUNS", "IMAGE", "LAST END")
	for _, i := range list {
		table.Row(i.ID, orDash(i.Name), i.State, i.CPUs, formatMiB(int(i.Pool>>20)), ownerName(i.UID), pidOf(i.PID), i.Runs, orDash(i.Image), orDash(i.End))
	}
	return table.Write(os.Stdout)
}

func pidOf(pid int32) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(int(pid))
}

func ownerName(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
