// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

type partRelease struct{ all bool }

func (p *partRelease) options(f *cli.Flags) { f.BoolVar(&p.all, "all", false, "every partition") }

func (p *partRelease) run(_ context.Context, f *cli.Flags, words []string) error {
	list, err := p.findPartitions(f, words)
	if err != nil {
		return err
	}
	for _, i := range list {
		done := progressOf("giving CPUs " + i.CPUs + " back to Linux")
		err := lent.ReleasePartition(i.ID)
		done()
		if err != nil {
			return partError(err)
		}
	}
	return nil
}

func (p *partRelease) findPartitions(f *cli.Flags, words []string) ([]lent.Info, error) {
	if p.all {
		if err := f.RefuseArgs(words); err != nil {
			return nil, err
		}
		list, err := lent.List()
		return list, partError(err)
	}
	if len(words) != 1 {
		return nil, f.Expectf("one partition is expected, by name or number")
	}
	i, err := lent.FindPartition(words[0])
	return []lent.Info{i}, partError(err)
}
