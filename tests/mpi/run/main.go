// SPDX-License-Identifier: MIT

// Command run starts MPI programs over O2G on several MPIs and prints TAP.
//
//	run programs          tests/mpi/program.c on four MPIs, 2 and 3 ranks
//	run mpi4py MODULE...  mpi4py's tests over O2G and over the MPI's own TCP,
//	                      one after the other; none may be worse on O2G, and
//	                      several ranks must send messages over it. No module:
//	                      all but dynamic processes.
//
// Every job has a time limit. A job that exceeds it fails, with the name of the test that
// was running.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"skep/tests/tap"
)

type options struct {
	build, results, scratch string
	engine, launcher, hosts string
	mpis                    []string
	ranks                   []int
	together, least         int
	prove                   bool
	deadline                time.Duration
}

func main() {
	var o options
	mpis := flag.String("mpi", "mpich", "mpi4py: which of mpich,openmpi,debian (its Open MPI)")
	ranks := flag.String("ranks", "2,3", "numbers of ranks")
	flag.StringVar(&o.build, "build", "build", "where skep, its library and the MPIs are")
	flag.StringVar(&o.results, "results", "", "mpi4py: write a table to this file")
	flag.StringVar(&o.scratch, "scratch", "build/test", "mpi4py: a folder for what ranks write")
	flag.StringVar(&o.engine, "engine", "", "the one that all messages over O2G must take")
	flag.StringVar(&o.launcher, "launcher", "", "mpirun's, for ranks at -hosts")
	flag.StringVar(&o.hosts, "hosts", "", "HOST,...: a rank at each, beginning with the first")
	flag.IntVar(&o.together, "together", 1, "mpi4py: modules in one job, where starting one takes long")
	flag.IntVar(&o.least, "least", 0, "mpi4py: tests that must pass over O2G with each number of ranks")
	flag.BoolVar(&o.prove, "prove", false, "mpi4py: also that TCP fails the tests left out for this six times")
	flag.DurationVar(&o.deadline, "deadline", 2*time.Minute, "of one job")
	flag.Parse()
	os.Exit(tap.Run(os.Stdout, func(t *tap.Report) error { return runSuite(t, &o, *mpis, *ranks, flag.Args()) }))
}

func runSuite(t *tap.Report, o *options, mpis, ranks string, words []string) error {
	for _, s := range strings.Split(ranks, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-ranks %s: want numbers of ranks", ranks)
		}
		o.ranks = append(o.ranks, n)
	}
	o.mpis = strings.Split(mpis, ",")
	var err error
	if o.build, err = filepath.Abs(o.build); err != nil {
		return err
	}
	if len(words) == 0 {
		return fmt.Errorf("want programs or mpi4py")
	}
	switch words[0] {
	case "programs":
		o.runPrograms(t)
		return nil
	case "mpi4py":
		return o.runMPI4Py(t, words[1:])
	}
	return fmt.Errorf("want programs or mpi4py, not %s", words[0])
}
