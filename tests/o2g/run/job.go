// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"skep/tests/mpi/ranks"
	"skep/tests/watch"
)

// An mpi is an installed MPI and the program that was built for it.
type mpi struct{ name, prefix, app string }

func (b *bench) findMPICH() mpi {
	return mpi{"MPICH", filepath.Join(b.build, "mpi", "mpich"), filepath.Join(b.build, "test", "o2g", "app-wheel")}
}

func (b *bench) findOpenMPI() mpi {
	return mpi{"Open MPI", filepath.Join(b.build, "mpi", "openmpi"), filepath.Join(b.build, "test", "o2g", "app-openmpi")}
}

func (b *bench) skepPath() string { return filepath.Join(b.build, "bin", "skep") }

// A job is a process and its descendants.
type job struct{ *watch.Process }

// mpiEnvironment returns the environment of a job, without the variables of an outer Slurm or
// Python environment.
func mpiEnvironment(more ...string) []string {
	var list []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SLURM_") && !strings.HasPrefix(e, "VIRTUAL_ENV=") && !strings.HasPrefix(e, "SKEP_") && !strings.HasPrefix(e, "FI_O2G_") {
			list = append(list, e)
		}
	}
	return ranks.Environment(list, more...)
}

// start starts a command. If it cannot be started, the job has ended and its output says
// why.
func (b *bench) start(env []string, stdin string, words ...string) *job {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = env
	if stdin != "" { // a pipe that ends late may kill Hydra by SIGPIPE
		cmd.Stdin = strings.NewReader(stdin)
	}
	cmd.WaitDelay = 5 * time.Second
	p, err := watch.Start(cmd)
	if err != nil {
		p = &watch.Process{Cmd: cmd, Done: make(chan struct{})}
		fmt.Fprintln(p, err)
		close(p.Done)
	}
	return &job{p}
}

// startMPIRun starts the MPI's program with options before and words after it.
func (b *bench) startMPIRun(m mpi, options string, words ...string) *job {
	args := append([]string{b.skepPath(), "mpirun", "--mpi", m.prefix}, strings.Fields(options)...)
	return b.start(mpiEnvironment(), "", append(append(args, "--", m.app), words...)...)
}

// waitForEnd waits for the job's end and returns its exit status. At the time limit it kills
// the process group.
func (j *job) waitForEnd(limit time.Duration) (int, error) {
	if !watch.Ends(j.Done, limit) {
		j.Kill()
		return -1, fmt.Errorf("it did not end within %v:\n%s", limit, j.lastLines())
	}
	if j.Cmd.ProcessState == nil {
		return -1, errors.New(j.lastLines())
	}
	return j.Cmd.ProcessState.ExitCode(), nil
}

func (j *job) lastLines() string {
	lines := strings.Split(strings.TrimSpace(j.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// checkEnd checks a job's status and that it printed each of the words.
func (j *job) checkEnd(limit time.Duration, status int, words ...string) error {
	got, err := j.waitForEnd(limit)
	if err != nil {
		return err
	}
	if got != status {
		return fmt.Errorf("exit status %d, want %d:\n%s", got, status, j.lastLines())
	}
	return j.checkOutput(words...)
}

func (j *job) checkOutput(words ...string) error {
	for _, w := range words {
		if !strings.Contains(j.String(), w) {
			return fmt.Errorf("it did not say %q:\n%s", w, j.lastLines())
		}
	}
	return nil
}

// waitForOutput waits until the job has printed each of the words.
func (j *job) waitForOutput(words ...string) error {
	return watch.Poll(soon, func() error { return j.checkOutput(words...) })
}

var pidLine = regexp.MustCompile(`rank \d+ pid (\d+)`)

// waitForRanks waits until n ranks have printed their process numbers.
func (j *job) waitForRanks(n int) (pids []int, err error) {
	err = watch.Poll(soon, func() error {
		pids = nil
		for _, m := range pidLine.FindAllStringSubmatch(j.String(), -1) {
			pid, _ := strconv.Atoi(m[1])
			pids = append(pids, pid)
		}
		if len(pids) != n {
			return fmt.Errorf("%d of %d ranks began:\n%s", len(pids), n, j.lastLines())
		}
		return nil
	})
	return pids, err
}

// countMessages returns the count of the closing line, 0 without one.
func (j *job) countMessages() int {
	n, _ := ranks.CountMessages(j.String())
	return int(n)
}

// readStat returns the fields of /proc/PID/stat after the name: state, parent, and so on. It
// returns none if there is no such process.
func readStat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// isAlive reports whether a process exists and is not a zombie.
func isAlive(pid int) bool {
	s := readStat(pid)
	return len(s) > 0 && s[0] != "Z" && s[0] != "X"
}

// parentPID returns the parent of a process, or 0 if there is no such process.
func parentPID(pid int) int {
	s := readStat(pid)
	if len(s) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(s[1])
	return n
}

// waitForGroup waits until no process of a job's group lives. The MPI's launcher outlives a
// skep that was killed: it ends the ranks first, and then removes its files.
func (j *job) waitForGroup() error {
	group := strconv.Itoa(j.Cmd.Process.Pid)
	return watch.Poll(soon, func() error {
		all, _ := filepath.Glob("/proc/[0-9]*") // fails only for a bad pattern
		for _, dir := range all {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			if s := readStat(pid); len(s) > 2 && s[2] == group && isAlive(pid) {
				return fmt.Errorf("process %d of the job is still there", pid)
			}
		}
		return nil
	})
}

// waitUntilGone waits until the processes have ended, and checks that skep o2g
// status removes the pages of those that were killed.
func (b *bench) waitUntilGone(pids []int) error {
	err := watch.Poll(soon, func() error {
		for _, pid := range pids {
			if isAlive(pid) {
				return fmt.Errorf("process %d is still there", pid)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A process looks dead when its first thread has ended, but its page stays locked
	// until the last thread ends.
	return watch.Poll(soon, func() error {
		if _, err := b.runSkep("o2g", "status"); err != nil {
			return err
		}
		for _, pid := range pids {
			if pages := pagesOf(pid); len(pages) > 0 {
				return fmt.Errorf("process %d left %s", pid, pages)
			}
		}
		return nil
	})
}

func pagesOf(pid int) []string {
	pages, _ := filepath.Glob(fmt.Sprintf("/dev/shm/skep-o2g-%d/%d-*", os.Getuid(), pid))
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		more, _ := filepath.Glob(fmt.Sprintf("%s/skep-o2g/%d-*", dir, pid))
		pages = append(pages, more...)
	}
	return pages
}
