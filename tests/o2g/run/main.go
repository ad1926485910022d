// SPDX-License-Identifier: MIT

// Command run tests jobs of `skep mpirun` from outside and prints TAP.
//
//	run journey    what its users do and do wrong, on each MPI
//	run hosts      several hosts, each a network namespace of this computer
//	run step       ranks that a batch system starts
//	run hostile    unauthenticated peers at the ports of a job
//	run kills N    N jobs, a random rank of each is killed amid its traffic
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"skep/tests/tap"
)

// A bench holds the state that all checks share.
type bench struct {
	*tap.Report
	build, tmp string
	private    bool // /dev/shm is our own
}

// Time limits for an idle computer. A hang fails; a busy machine does not.
const (
	soon  = time.Minute
	later = 3 * time.Minute
)

func main() {
	b := &bench{}
	flag.StringVar(&b.build, "build", "build", "where skep, its library and the MPIs are")
	flag.Parse()
	os.Exit(tap.Run(os.Stdout, func(t *tap.Report) error {
		b.Report = t
		if err := b.runIsolated(flag.Args()); err != nil {
			return err
		}
		return b.run(flag.Args())
	}))
}

// runIsolated runs the suite, as root, with a /dev/shm of its own, by execve: MPICH and Open
// MPI leave segments there if their ranks are killed, with or without O2G. For kills it has a
// network of its own too. So everything that remains there comes from the suite.
func (b *bench) runIsolated(words []string) error {
	const mark = "SKEP_O2G_ALONE"
	b.private = os.Getenv(mark) != ""
	if b.private || os.Getuid() != 0 {
		return nil
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	args, script := []string{"unshare", "--mount", "--propagation", "private"}, "mount -t tmpfs -o mode=1777 shm /dev/shm"
	if len(words) > 0 && words[0] == "kills" {
		args, script = append(args, "--net"), script+" && ip link set lo up"
	}
	args = append(args, "sh", "-c", script+` && exec "$0" "$@"`)
	return syscall.Exec(unshare, append(args, os.Args...), append(os.Environ(), mark+"=1"))
}

func (b *bench) run(words []string) (err error) {
	if b.build, err = filepath.Abs(b.build); err != nil {
		return err
	}
	if b.tmp, err = os.MkdirTemp("", "skep-o2g-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.tmp)
	switch {
	case len(words) == 1 && words[0] == "journey":
		b.testJourney()
	case len(words) == 1 && words[0] == "hosts":
		return b.testHosts()
	case len(words) == 1 && words[0] == "step":
		b.testBatchStep()
	case len(words) == 1 && words[0] == "hostile":
		b.testHostile()
	case len(words) == 2 && words[0] == "kills":
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 {
			return fmt.Errorf("kills %s: want a number", words[1])
		}
		b.testKills(n)
	default:
		return fmt.Errorf("want journey, hosts, step, hostile or kills N, not %q", words)
	}
	return nil
}
