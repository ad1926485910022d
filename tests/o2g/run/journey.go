// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"skep/tests/watch"
)

func (b *bench) testJourney() {
	b.Ok("libfabric's fi_info names the provider", b.checkProvider())
	b.testWrongUse()
	for _, m := range []mpi{b.findMPICH(), b.findOpenMPI()} {
		b.goesWell(m)
		b.goesBadly(m)
		b.checkStatus(m)
	}
}

// checkProvider checks that libfabric finds and queries the provider in the folder that FI_PROVIDER_PATH names.
func (b *bench) checkProvider() error {
	env := mpiEnvironment("FI_PROVIDER_PATH=" + filepath.Join(b.build, "lib"))
	return b.start(env, "", "fi_info", "-p", "o2g").checkEnd(soon, 0, "provider: o2g", "type: FI_EP_RDM")
}

// testWrongUse tests user errors that are refused before a job starts.
func (b *bench) testWrongUse() {
	m := b.findMPICH()
	for _, c := range []struct {
		name, line string
		status     int
		words      []string
	}{
		{"no program", "-n 2", 2, []string{"a program is expected", "usage:"}},
		{"a number that is none", "-n many -- true", 2, []string{"want a number of ranks"}},
		{"the launcher's word for an option", "-machinefile hosts true", 2, []string{"-machinefile of the MPI's launcher is --hostfile here"}},
		{"two programs without numbers", "true : -n 2 true", 2, []string{"needs -n N for each"}},
		{"a second program without a number", "-n 1 true : true", 2, []string{`part 2, "true": -n N is expected`}},
		{"no second program", "-n 1 true : -n 2", 2, []string{`part 2, "-n 2": a program is expected`}},
		{"an option of skep in a later part", "-n 1 true : --tcp -n 2 true", 2, []string{"part 2", `--tcp can't follow a ":"`}},
		{"a second program that is missing", "-n 1 true : -n 1 ./nonexistent", 127, []string{"./nonexistent can't be run"}},
		{"an unknown option", "--faster true", 2, []string{"there is no option --faster", "skep mpirun --help"}},
		{"a typo", "--no-smh -- true", 2, []string{"there is no option --no-smh; did you mean --no-shm?"}},
		{"hosts twice", "--hosts a --hostfile /dev/null -- true", 2, []string{"exclude each other"}},
		{"a host file that is missing", "--hostfile /nonexistent -- true", 2, []string{"can't be read"}},
		{"an unknown engine", "--engine warp -- true", 2, []string{"there is: auto, kernel, user"}},
		{"a program that is missing", "--mpi " + m.prefix + " -- ./nonexistent", 127, []string{"./nonexistent can't be run"}},
		{"a prefix without an MPI", "--mpi " + b.tmp + " -- true", 1, []string{"no MPI in " + b.tmp}},
		{"a prefix of the other family", "--mpi " + b.findOpenMPI().prefix + " -- " + m.app, 1, []string{"is not the family of libmpi.so.12", "pip install mpich"}},
		{"an MPI without libfabric", "--mpi " + b.makePoorMPI() + " -- true", 1, []string{"was built without libfabric", "pip install mpich"}},
	} {
		j := b.start(mpiEnvironment(), "", append([]string{b.skepPath(), "mpirun"}, strings.Fields(c.line)...)...)
		err := j.checkEnd(soon, c.status, c.words...)
		if lines := strings.Count(j.String(), "\n"); err == nil && lines != 1 {
			err = fmt.Errorf("%d lines instead of one:\n%s", lines, j.lastLines())
		}
		b.Ok("wrong: "+c.name, err)
	}
	j := b.start(mpiEnvironment(), "", b.skepPath(), "mpirun", "--mpi", m.prefix, "-n", "2", "--faster", "5", "--", m.app)
	b.Ok("an option that skep does not know is the launcher's, before --", j.checkEnd(soon, 255, "mpiexec", "unrecognized argument faster"))
	empty := filepath.Join(b.tmp, "empty")
	_ = os.Mkdir(empty, 0o755) // its absence would fail the check
	j = b.start(mpiEnvironment("PATH="+empty), "", b.skepPath(), "mpirun", "--", m.app)
	b.Ok("wrong: no MPI anywhere", j.checkEnd(soon, 1, "no MPI was found", "pip install mpich"))
	b.Ok("wrong: the provider is missing", b.checkNoLibrary(m))
}

// makePoorMPI creates an MPI whose launcher says that it has no libfabric.
func (b *bench) makePoorMPI() string {
	prefix := filepath.Join(b.tmp, "poor")
	text := "#!/bin/sh\necho 'HYDRA build details:\n    Version: 9\n    Configure options: --with-device=ch3:nemesis'\n"
	err := os.MkdirAll(filepath.Join(prefix, "bin"), 0o755)
	err = errors.Join(err, os.WriteFile(filepath.Join(prefix, "bin", "mpiexec"), []byte(text), 0o755))
	if err != nil {
		fmt.Println("#", err)
	}
	return prefix
}

// checkNoLibrary runs a skep whose folder lacks the library.
func (b *bench) checkNoLibrary(m mpi) error {
	bin := filepath.Join(b.tmp, "alone", "bin")
	skep, err := os.ReadFile(b.skepPath())
	if err := errors.Join(err, os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, "skep"), skep, 0o755)); err != nil {
		return err
	}
	j := b.start(mpiEnvironment(), "", filepath.Join(bin, "skep"), "mpirun", "--mpi", m.prefix, "--", m.app)
	return j.checkEnd(soon, 1, "libo2g-fi.so is not in", "run make")
}

func (b *bench) goesWell(m mpi) {
	j := b.startMPIRun(m, "--no-shm -n 2", "talk")
	err := j.checkEnd(later, 0, "2 of 2 ranks reported", "over O2G (user engine)")
	if err == nil && j.countMessages() < 10 {
		err = fmt.Errorf("%d messages were counted:\n%s", j.countMessages(), j.lastLines())
	}
	b.Ok(m.name+": the closing line counts what went over O2G", err)

	j = b.startMPIRun(m, "--no-shm -n 2 --tcp", "talk")
	b.Ok(m.name+": --tcp says that nothing went over O2G", j.checkEnd(later, 0, "on its own TCP; no message went over O2G"))

	j = b.startMPIRun(m, "--quiet --no-shm -n 2", "talk")
	err = j.checkEnd(later, 0)
	if err == nil && strings.Contains(j.String(), "skep:") {
		err = errors.New(j.lastLines())
	}
	b.Ok(m.name+": --quiet leaves the closing line out", err)

	j = b.startMPIRun(m, "--summary --quiet --no-shm -n 2", "talk")
	err = j.checkEnd(later, 0, "UNEXPECTED")
	if rows := strings.Count(j.String(), "  user  "); err == nil && rows != 2 {
		err = fmt.Errorf("%d lines of processes:\n%s", rows, j.lastLines())
	}
	b.Ok(m.name+": --summary prints a line for each rank", err)

	j = b.startMPIRun(m, "-n 1", "quiet")
	b.Ok(m.name+": a run without messages over O2G says so", j.checkEnd(later, 0, "no message went over O2G"))
	if m.prefix == b.findMPICH().prefix {
		none := b.startMPIRun(m, "-n 1 --no-shm", "quiet")
		j = b.startMPIRun(m, "-n 2", "talk")
		b.Ok(m.name+": a run of one rank without shared memory gets no advice", none.checkEnd(later, 0, "no message went over O2G: there is one rank"))
		b.Ok(m.name+": a run over shared memory says so", j.checkEnd(later, 0, "2 of 2 ranks reported; no message went over O2G (ranks of one host", "--no-shm"))
		j = b.startMPIRun(m, "-n 2", "rally")
		b.Ok(m.name+": ranks that share memory do not sleep between polls", j.checkEnd(later, 0, "no message went over O2G"))
	}

	// Open MPI 5.0's launcher does not pass the end of its input on.
	args := []string{b.skepPath(), "mpirun", "--mpi", m.prefix, "-n", "2", "--", m.app, "stdin"}
	j = b.start(mpiEnvironment(), "one\ntwo\nend\n", args...)
	b.Ok(m.name+": rank 0 reads standard input", j.checkEnd(later, 0, "rank 0 read 3 lines, the last: end"))
	if m.prefix == b.findMPICH().prefix {
		j = b.start(mpiEnvironment(), "one\ntwo\n", args...)
		b.Ok(m.name+": rank 0 sees the end of its input", j.checkEnd(later, 0, "rank 0 read 2 lines, the last: two"))
	}

	j = b.startMPIRun(m, "--no-shm -n 2", "exit", "42")
	b.Ok(m.name+": the exit status is the program's", j.checkEnd(later, 42, "2 of 2 ranks reported"))

	b.shareWindows(m)
	b.shareFile(m)
	b.launcherOptions(m)

	if m.prefix == b.findMPICH().prefix { // Open MPI's cm does not support spawning over libfabric
		j = b.startMPIRun(m, "--no-shm -n 1", "spawn")
		b.Ok(m.name+": spawned processes are counted, but not as ranks", j.checkEnd(later, 0, "3 processes reported, of 1 ranks and what they spawned", "over O2G"))
	}

	j = b.startMPIRun(m, "--no-shm -n 2", "leave")
	// The launcher may kill the other rank meanwhile.
	_, err = j.waitForEnd(later)
	b.Ok(m.name+": a rank that exits without MPI_Finalize is counted", errors.Join(err, j.checkOutput("of 2 ranks reported", "over O2G")))

	j = b.startMPIRun(m, "--no-shm -n 2", "processes")
	err = j.checkEnd(later, 0, "2 of 2 ranks reported")
	if err == nil && strings.Contains(j.String(), "went wrong") {
		err = errors.New(j.lastLines())
	}
	b.Ok(m.name+": ranks fork, exec and call shells during their traffic", err)

	j = b.start(mpiEnvironment(), "", b.skepPath(), "mpirun", "--mpi", m.prefix, "-n", "2", "--", "/bin/echo", "no MPI")
	b.Ok(m.name+": a program without MPI says that nothing went over O2G", j.checkEnd(later, 0, "no rank reported an O2G endpoint"))
}

func (b *bench) shareWindows(m mpi) {
	for _, bytes := range []string{"8", "16384", "65536", "1000000"} {
		j := b.startMPIRun(m, "--no-shm -n 3", "window", bytes)
		b.Ok(m.name+": 8 puts and gets of "+bytes+" bytes in flight together", j.checkEnd(later, 0, "put and got\n", "over O2G"))
	}

	j := b.startMPIRun(m, "--no-shm -n 3", "tickets")
	b.Ok(m.name+": ranks add to numbers of a rank and take tickets", j.checkEnd(later, 0, "tickets and sums\n", "over O2G"))
}

// shareFile runs ranks with few descriptors: MPI-IO and the library both open some of their own.
func (b *bench) shareFile(m mpi) {
	script := `ulimit -n 32 && exec "$0" file "$1"`
	j := b.start(mpiEnvironment(), "", b.skepPath(), "mpirun", "--no-shm", "--mpi", m.prefix, "-n", "2", "--",
		"sh", "-c", script, m.app, filepath.Join(b.tmp, "shared"))
	b.Ok(m.name+": ranks of 32 descriptors write and read a file together", j.checkEnd(later, 0, "rank 0 wrote and read a file", "rank 1 wrote and read a file", "2 of 2 ranks reported", "over O2G"))
}

// launcherOptions tests that skep mpirun accepts the options of the MPI's own launcher.
func (b *bench) launcherOptions(m mpi) {
	line, foreign := "-genv COLOUR blue -ppn 2 -l", "--report-bindings"
	if m.prefix != b.findMPICH().prefix {
		line, foreign = "-x COLOUR=blue --bind-to none --tag-output", "-ppn 2"
	}
	start := func(words string, program ...string) *job {
		args := append([]string{b.skepPath(), "mpirun", "--mpi", m.prefix}, strings.Fields(words)...)
		return b.start(mpiEnvironment(), "", append(args, program...)...)
	}
	j := start(line+" -n 2", "/bin/sh", "-c", "echo rank sees $COLOUR")
	err := j.checkEnd(later, 0, "rank sees blue")
	if err == nil && strings.HasPrefix(j.String(), "rank") {
		err = fmt.Errorf("the lines do not begin with their rank:\n%s", j.lastLines())
	}
	b.Ok(m.name+": options of its launcher are passed on", err)

	j = start("--no-shm -n 1", m.app, "talk", ":", "-n", "2", m.app, "talk")
	b.Ok(m.name+": a job of two programs is one job", j.checkEnd(later, 0, "3 of 3 ranks reported", "over O2G"))
	j = start(foreign+" -n 2", m.app, "quiet")
	b.Ok(m.name+": an option of another launcher is refused", j.checkEnd(soon, 2, strings.Fields(foreign)[0]+" is an option of", "--help"))
}

// checkNoShared runs a job where /dev/shm can't be written to, as in some containers.
// MPICH needs it, Open MPI and O2G do not.
func (b *bench) checkNoShared(m mpi) error {
	script := "mount -t tmpfs -o ro none /dev/shm && exec \"$@\""
	j := b.start(mpiEnvironment(), "", "unshare", "-m", "sh", "-c", script, "sh", b.skepPath(), "mpirun", "--mpi", m.prefix, "--no-shm", "-n", "2", "--", m.app, "talk")
	if m.prefix == b.findOpenMPI().prefix {
		return j.checkEnd(later, 0, "2 of 2 ranks reported", "messages over O2G")
	}
	status, err := j.waitForEnd(later)
	if err == nil && status == 0 {
		return errors.New("the job ended well")
	}
	return errors.Join(err, j.checkOutput("no file can be created in /dev/shm", "mount a tmpfs"))
}

func (b *bench) goesBadly(m mpi) {
	if os.Getuid() == 0 {
		b.Ok(m.name+": /dev/shm can't be written to", b.checkNoShared(m))
	} else {
		b.Skip(m.name+": /dev/shm can't be written to", "mounts need root")
	}
	b.Ok(m.name+": Ctrl-C ends all ranks", b.checkInterrupt(m, "traffic", syscall.SIGINT, 130))
	b.Ok(m.name+": Ctrl-C ends ranks that ignore it", b.checkInterrupt(m, "stubborn", syscall.SIGINT, 130))
	b.Ok(m.name+": SIGTERM to skep ends all ranks", b.checkInterrupt(m, "traffic", syscall.SIGTERM, 130))
	b.Ok(m.name+": SIGKILL to skep ends all ranks", b.checkInterrupt(m, "traffic", syscall.SIGKILL, -1))

	j := b.startMPIRun(m, "--no-shm -n 2", "die")
	pids, err := j.waitForRanks(2)
	status := 0
	if err == nil {
		status, err = j.waitForEnd(later)
	}
	if err == nil && status == 0 {
		err = errors.New("the job ended well")
	}
	if err == nil {
		err = j.checkOutput("of 2 ranks reported", "not counted")
	}
	if err == nil {
		err = b.waitUntilGone(pids)
	}
	j.Kill()
	b.Ok(m.name+": a rank that is killed ends the job, and is not counted", err)
}

// checkInterrupt checks a signal to the whole process group, like a terminal's Ctrl-C, and a
// signal to skep only.
func (b *bench) checkInterrupt(m mpi, what string, signal syscall.Signal, status int) error {
	j := b.startMPIRun(m, "--no-shm -n 2", what)
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = j.waitForOutput("rank 0 is talking", "rank 1 is talking")
	}
	if err != nil {
		return err
	}
	to := j.Cmd.Process.Pid
	if signal == syscall.SIGINT {
		to = -to
	}
	err = syscall.Kill(to, signal)
	if err = errors.Join(err, j.checkEnd(soon, status)); err != nil {
		return err
	}
	return errors.Join(b.waitUntilGone(pids), j.waitForGroup())
}

// checkStatus checks that skep o2g status lists the endpoints of a running job.
func (b *bench) checkStatus(m mpi) {
	j := b.startMPIRun(m, "--no-shm -n 2", "traffic")
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = watch.Poll(soon, func() error { return b.checkTable(m, pids) })
	}
	b.Ok(m.name+": skep o2g status lists both endpoints", err)
	if len(pids) > 0 {
		err = watch.Poll(soon, func() error { return b.checkCounters(pids) })
	}
	b.Ok(m.name+": skep o2g status --json counts their messages", err)
	if j.Cmd.Process != nil {
		_ = syscall.Kill(j.Cmd.Process.Pid, syscall.SIGTERM)
	}
	_, err = j.waitForEnd(soon)
	if err == nil {
		err = b.waitUntilGone(pids)
	}
	left, jerr := b.readEndpoints()
	if err = errors.Join(err, jerr); err == nil {
		for _, e := range left {
			if slices.Contains(pids, e.PID) {
				err = fmt.Errorf("process %d is still listed", e.PID)
			}
		}
	}
	b.Ok(m.name+": skep o2g status lists no endpoint afterwards", err)
}

// runSkep runs skep and waits for its end.
func (b *bench) runSkep(words ...string) (string, error) {
	j := b.start(mpiEnvironment(), "", append([]string{b.skepPath()}, words...)...)
	err := j.checkEnd(soon, 0)
	return j.String(), err
}

func (b *bench) checkTable(m mpi, pids []int) error {
	text, err := b.runSkep("o2g", "status")
	if err != nil {
		return err
	}
	for _, pid := range pids {
		found := false
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			found = found || (len(words) > 2 && slices.Contains(words, fmt.Sprint(pid)) && slices.Contains(words, filepath.Base(m.app)))
		}
		if !found {
			return fmt.Errorf("process %d is not in\n%s", pid, text)
		}
	}
	return nil
}

// An endpoint is an element of skep o2g status --json.
type endpoint struct {
	PID       int    `json:"pid"`
	Address   string `json:"address"`
	ID        string `json:"id"`
	Sent      uint64 `json:"sent"`
	Received  uint64 `json:"received"`
	Connected uint32 `json:"connected"`
	Refused   uint32 `json:"refused"`
}

func (b *bench) readEndpoints() ([]endpoint, error) {
	text, err := b.runSkep("o2g", "status", "--json")
	if err != nil {
		return nil, err
	}
	var list []endpoint
	return list, json.Unmarshal([]byte(text), &list)
}

func (b *bench) checkCounters(pids []int) error {
	list, err := b.readEndpoints()
	if err != nil {
		return err
	}
	n := 0
	for _, e := range list {
		if slices.Contains(pids, e.PID) && e.Sent > 100 && e.Received > 100 {
			n++
		}
	}
	if n != len(pids) {
		return fmt.Errorf("%d of %d endpoints with traffic in %+v", n, len(pids), list)
	}
	return nil
}
