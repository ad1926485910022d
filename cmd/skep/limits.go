// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"strconv"
	"time"

	"skep/grid/proto"
	"skep/internal/cli"
)

// limitOptions defines the options for limits. The owner of a node uses the same names with
// the prefix limit-.
func limitOptions(f *cli.Flags, prefix, whom string, l *proto.Limits) {
	bytes := func(to *uint64) func(string) error {
		return func(s string) (err error) {
			if *to, err = cli.ParseBytes(s); err == nil && *to == 0 {
				err = errors.New("want more than 0")
			}
			return err
		}
	}
	spell := func(to *float64) func(string) error {
		return func(s string) error {
			d, err := time.ParseDuration(s)
			if err != nil || d <= 0 {
				return errors.New("want a time such as 30s, 10m or 2h")
			}
			*to = d.Seconds()
			return nil
		}
	}
	f.Func(prefix+string(proto.LimitMemory), "let "+whom+" use `BYTES` of memory at most (K, M, G)", bytes(&l.Memory))
	f.Func(prefix+string(proto.LimitDisk), "let "+whom+" keep `BYTES` on the node's disk at most (K, M, G)", bytes(&l.Disk))
	f.Func(prefix+string(proto.LimitCPU), "let "+whom+" use `TIME` of all processors at most, such as 10m", spell(&l.CPU))
	f.Func(prefix+string(proto.LimitWall), "let "+whom+" take `TIME` at most", spell(&l.Wall))
	f.Func(prefix+string(proto.LimitProcesses), "let "+whom+" have `N` processes and threads at most", func(s string) (err error) {
		if l.Processes, err = strconv.ParseUint(s, 10, 32); err != nil || l.Processes == 0 {
			return errors.New("want a number above 0")
		}
		return nil
	})
}
