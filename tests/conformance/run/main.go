// SPDX-License-Identifier: MIT

// Command run compares Linux programs under bee with native runs of the same files, and
// prints TAP.
//
// A run under bee counts only with bee's proof: its report must contain the nonce of this
// run, a number of calls, as many patched sites as found ones, and the digest of this file.
// One program also prints the answer of call 0xBEE. A loader that starts programs natively
// fails all of this.
//
//	run -on native   each program twice: the oracle must be deterministic
//	run -on linux    under bee-guard build/bin/bee
//	run -on wine     under bee-guard wine build/bin/bee.exe
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"skep/tests/tap"
)

type options struct {
	substrate, programs, bin, scratch, table, prefix string
	only                                             *regexp.Regexp
	keep, list                                       bool
	parallel                                         int
}

func parseOptions() options {
	var o options
	only := flag.String("only", "", "run the cases whose names match")
	flag.StringVar(&o.substrate, "on", "native", "native, linux or wine")
	flag.StringVar(&o.programs, "programs", "build/conformance", "where the programs are")
	flag.StringVar(&o.bin, "bin", "build/bin", "where bee, bee.exe and bee-guard are")
	flag.StringVar(&o.scratch, "scratch", "build/conformance/scratch", "working directories of the programs")
	flag.StringVar(&o.table, "table", "tests/conformance/unsupported.txt", "what substrates are not expected to support")
	flag.StringVar(&o.prefix, "prefix", "build/wine", "WINEPREFIX")
	flag.BoolVar(&o.keep, "keep", false, "keep the outputs under the scratch directory")
	flag.BoolVar(&o.list, "list", false, "print the names of the cases")
	flag.IntVar(&o.parallel, "parallel", 1, "how many cases run at a time")
	flag.Parse()
	o.only = regexp.MustCompile(*only)
	o.parallel = max(1, o.parallel)
	for _, path := range []*string{&o.programs, &o.bin, &o.scratch, &o.prefix} {
		*path, _ = filepath.Abs(*path)
	}
	return o
}

func main() {
	o := parseOptions()
	cases := selectCases(allCases(o.programs), o.only)
	if o.list {
		for _, c := range cases {
			fmt.Println(c.name)
		}
		return
	}
	os.Exit(tap.Run(os.Stdout, func(t *tap.Report) error { return runCases(t, o, cases) }))
}

func runCases(report *tap.Report, o options, cases []testCase) error {
	sub, err := newSubstrate(o)
	if err != nil {
		return err
	}
	table, err := readTable(o.table, sub.name)
	if err != nil {
		return err
	}
	if err := table.check(cases, o.only.String() == ""); err != nil {
		return err
	}
	folder, err := lockScratch(&o, sub.name)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := sub.start(); err != nil {
		return err
	}
	defer sub.stop()
	judge := func(c testCase) result { return judgeCase(o, sub, c, table[c.name]) }
	judgeCases(cases, o.parallel, judge, func(c testCase, r result) {
		switch {
		case r.skip != "":
			report.Skip(c.name, r.skip)
		case len(r.why) > 0:
			report.Ok(c.name, errors.New(strings.Join(r.why, "\n")))
		default:
			report.Ok(c.name, nil)
		}
	})
	return nil
}

// lockScratch gives the run a scratch directory of its substrate's name, and locks it until
// the returned directory is closed. The suites run in parallel and each runs the same programs
// natively, so that two in one directory would remove each other's files.
func lockScratch(o *options, substrate string) (*os.File, error) {
	o.scratch = filepath.Join(o.scratch, substrate)
	if err := os.MkdirAll(o.scratch, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.Open(o.scratch)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		dir.Close()
		return nil, fmt.Errorf("%s is in use by another run (%w): wait for it, or name another directory with -scratch", o.scratch, err)
	}
	return dir, nil
}
