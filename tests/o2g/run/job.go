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

	"skep/tests/watch"
)

// An mpi is one that jobs run on, and the program that was built for it.
type mpi struct{ name, prefix, app string }

func (b *bench) mpich() mpi {
	return mpi{"MPICH", filepath.Join(b.build, "mpi", "mpich"), filepath.Join(b.build, "test", "o2g", "app-wheel")}
}

func (b *bench) openmpi() mpi {
	return mpi{"Open MPI", filepath.Join(b.build, "mpi", "openmpi"), filepath.Join(b.build, "test", "o2g", "app-openmpi")}
}

func (b *bench) skep() string { return filepath.Join(b.build, "bin", "skep") }

// A job is a process of ours with what it started.
type job struct{ *watch.Process }

// environment lets Open MPI run for root, more ranks than cores; what this
// process has from a Slurm or a Python around it does not matter.
func environment(more ...string) []string {
	var list []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SLURM_") && !strings.HasPrefix(e, "VIRTUAL_ENV=") && !strings.HasPrefix(e, "SKEP_") && !strings.HasPrefix(e, "FI_O2G_") {
			list = append(list, e)
		}
	}
	list = append(list, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_mpi_yield_when_idle=1")
	return append(list, more...)
}

// start runs a command; one that cannot be started has ended, and says why.
func (b *bench) start(env []string, stdin string, words ...string) *job {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Stdin = env, strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	p, err := watch.Start(cmd)
	if err != nil {
		p = &watch.Process{Cmd: cmd, Done: make(chan struct{})}
		fmt.Fprintln(p, err)
		close(p.Done)
	}
	return &job{p}
}

// mpirun starts the MPI's program with options before and words after it.
func (b *bench) mpirun(m mpi, options string, words ...string) *job {
	args := append([]string{b.skep(), "mpirun", "--mpi", m.prefix}, strings.Fields(options)...)
	return b.start(environment(), "", append(append(args, "--", m.app), words...)...)
}

// end waits for the job's end and gives its exit status; a job that does not
// end is killed, with its group.
func (j *job) end(limit time.Duration) (int, error) {
	if !watch.Ends(j.Done, limit) {
		j.Kill()
		return -1, fmt.Errorf("it did not end within %v:\n%s", limit, j.tail())
	}
	if j.Cmd.ProcessState == nil {
		return -1, errors.New(j.tail())
	}
	return j.Cmd.ProcessState.ExitCode(), nil
}

func (j *job) tail() string {
	lines := strings.Split(strings.TrimSpace(j.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// ends checks a job's status and that it said each of the words.
func (j *job) ends(limit time.Duration, status int, words ...string) error {
	got, err := j.end(limit)
	if err != nil {
		return err
	}
	if got != status {
		return fmt.Errorf("exit status %d, want %d:\n%s", got, status, j.tail())
	}
	return j.said(words...)
}

func (j *job) said(words ...string) error {
	for _, w := range words {
		if !strings.Contains(j.String(), w) {
			return fmt.Errorf("it did not say %q:\n%s", w, j.tail())
		}
	}
	return nil
}

// says waits until it has said each of the words.
func (j *job) says(words ...string) error {
	return watch.Poll(soon, func() error { return j.said(words...) })
}

var pidLine = regexp.MustCompile(`rank \d+ pid (\d+)`)

// ranks waits until n ranks have said who they are.
func (j *job) ranks(n int) (pids []int, err error) {
	err = watch.Poll(soon, func() error {
		pids = nil
		for _, m := range pidLine.FindAllStringSubmatch(j.String(), -1) {
			pid, _ := strconv.Atoi(m[1])
			pids = append(pids, pid)
		}
		if len(pids) != n {
			return fmt.Errorf("%d of %d ranks began:\n%s", len(pids), n, j.tail())
		}
		return nil
	})
	return pids, err
}

var overO2G = regexp.MustCompile(`(\d+) messages? over O2G`)

// messages is what the closing line counts, 0 without one.
func (j *job) messages() int {
	if m := overO2G.FindStringSubmatch(j.String()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

// stat gives the fields of /proc/PID/stat behind the name: its state, its
// parent, ...; none for a process that is not there.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// alive says whether a process is there and no zombie.
func alive(pid int) bool {
	s := stat(pid)
	return len(s) > 0 && s[0] != "Z" && s[0] != "X"
}

// parent is 0 for a process that is not there.
func parent(pid int) int {
	s := stat(pid)
	if len(s) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(s[1])
	return n
}

// gone waits until none of the processes is there, and looks that skep o2g
// status removes the pages of those that were killed.
func (b *bench) gone(pids []int) error {
	err := watch.Poll(soon, func() error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("process %d is still there", pid)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A process is called dead when its first thread is; the last one releases the page.
	return watch.Poll(soon, func() error {
		if _, err := b.ask("o2g", "status"); err != nil {
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
