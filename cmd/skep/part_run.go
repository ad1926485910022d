// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	"skep/internal/place"
	lent "skep/shimos/part"
)

type partRun struct{ on, ledger string }

func (p *partRun) options(f *cli.Flags) {
	f.StringVar(&p.on, "on", "", "the `PARTITION`, by name or number; not needed where there is one")
	f.StringVar(&p.ledger, "ledger", "", "write the run's ledger to `FILE`, instead of the file that part stats reads by default")
}

// run replaces this process by the proxy, so that signals, streams and exit status are
// those of the program.
func (p *partRun) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a program is expected")
	}
	i, err := onePartition(p.on)
	if err != nil {
		return partError(err)
	}
	if p.ledger == "" {
		if p.ledger, err = ledgerOf(i.ID); err != nil {
			return err
		}
	}
	proxy, err := place.FindFile("sms-proxy")
	if err != nil {
		return cli.Errorf(cli.Refused, "the proxy of partitions: %v", err)
	}
	args := append([]string{proxy, "--ledger", p.ledger, strconv.FormatUint(uint64(i.ID), 10)}, words...)
	err = unix.Exec(proxy, args, os.Environ())
	return cli.Errorf(cli.Refused, "the proxy of partitions %s cannot be started: %v", proxy, err)
}

// onePartition finds the partition that is named, or the only one.
func onePartition(word string) (lent.Info, error) {
	if word != "" {
		return lent.FindPartition(word)
	}
	list, err := lent.List()
	if err != nil {
		return lent.Info{}, err
	}
	return onlyPartition(list)
}

func onlyPartition(list []lent.Info) (lent.Info, error) {
	switch len(list) {
	case 0:
		return lent.Info{}, &lent.RefusedError{Why: "there is no partition: 'skep part create' makes one"}
	case 1:
		return list[0], nil
	}
	var names []string
	for _, i := range list {
		names = append(names, strconv.FormatUint(uint64(i.ID), 10))
	}
	return lent.Info{}, &lent.RefusedError{Why: fmt.Sprintf("there are partitions %s: say which with --on", strings.Join(names, ", "))}
}

// ledgerOf returns the path of the ledger of this user's last run in a partition.
func ledgerOf(id uint32) (string, error) {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", cli.Errorf(cli.Refused, "no folder for the ledger of the run: give --ledger FILE, or set HOME (%v)", err)
		}
	}
	dir = filepath.Join(dir, "skep")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, fmt.Sprintf("partition-%d.ledger", id)), nil
}
