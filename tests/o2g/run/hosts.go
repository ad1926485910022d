// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"skep/tests/wire"
)

// testHosts runs jobs on several hosts, with and without delay.
func (b *bench) testHosts() error {
	if os.Getuid() != 0 {
		b.Skip("hosts", "network namespaces need root")
		return nil
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		b.Skip("hosts", "this kernel has no tunnel devices: "+err.Error())
		return nil
	}
	for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
		w, err := wire.New(b.tmp, 2, delay)
		if err != nil {
			return err
		}
		b.onWire(w)
		w.Close()
	}
	return nil
}

func (b *bench) onWire(w *wire.Wire) {
	far := fmt.Sprintf("%v away", w.Delay)
	both := fmt.Sprintf("--launcher %s --hosts %s,%s -n 2", w.Shell, w.Host(1), w.Host(2))
	for _, m := range []mpi{b.findMPICH(), b.findOpenMPI()} {
		j := b.startMPIRun(m, both, "talk")
		b.Ok(fmt.Sprintf("%s: %s: two hosts talk and report", far, m.name), checkBothReported(j, 10))
		b.Ok(fmt.Sprintf("%s: %s: the secret is on no command line", far, m.name), b.checkSecrecy(m, both))
		b.testCredit(m, both, fmt.Sprintf("%s: %s: ", far, m.name))
	}
	if w.Delay == 0 {
		b.testNaming(w)
		b.testIPv6(w)
		b.testEncryption(w, both)
	}
}

// testIPv6 checks that messages go over IPv6 where --iface names such a network.
func (b *bench) testIPv6(w *wire.Wire) {
	if w.Net6 == "" {
		b.Skip("messages over IPv6", "this kernel has no IPv6")
		return
	}
	both := fmt.Sprintf("--launcher %s --hosts %s,%s -n 2 --iface %s/64", w.Shell, w.Host(1), w.Host(2), w.Net6)
	for _, m := range []mpi{b.findMPICH(), b.findOpenMPI()} {
		b.Ok(m.name+": two hosts talk over IPv6 and report", checkBothReported(b.startMPIRun(m, both, "talk"), 10))
		j := b.startMPIRun(m, both+" --ports 7700-7763", "traffic")
		b.Ok(m.name+": over IPv6, an interface by its network, and ports", b.checkListening(j, w.Net6, 7700, 7763))
	}
	named := fmt.Sprintf("--launcher %s --hosts %s,%s -n 2", w.Shell, w.Host6(1), w.Host6(2))
	b.Ok("Open MPI: hosts that are named by IPv6 addresses", checkBothReported(b.startMPIRun(b.findOpenMPI(), named, "talk"), 10))
	j := b.startMPIRun(b.findMPICH(), named, "talk")
	b.Ok("MPICH: hosts that are named by IPv6 addresses are refused", j.checkFailure("reaches hosts over IPv4 only"))
}

// testEncryption looks at every packet of jobs that send one letter again and again, in
// messages and by one-sided operations.
func (b *bench) testEncryption(w *wire.Wire, both string) {
	for _, m := range []mpi{b.findMPICH(), b.findOpenMPI()} {
		for _, c := range []struct {
			hidden, shown, letter string
			words                 []string
		}{
			{": --encrypt: no byte of a message lies on the wire", ": without it, they do", "x", []string{"posted", "2000000"}},
			{": --encrypt: no byte of a window lies on the wire", ": without it, those of a window do", "\x07", []string{"window", "60000"}},
		} {
			run := func(options string) *job { return b.startMPIRun(m, both+options, c.words...) }
			packets, shown, err := lookFor(w, c.letter, func() *job { return run(" --encrypt") })
			if err == nil && (shown > 0 || packets < 30) {
				err = fmt.Errorf("%d of %d packets contain its bytes", shown, packets)
			}
			b.Ok(m.name+c.hidden, err)
			packets, shown, err = lookFor(w, c.letter, func() *job { return run("") })
			if err == nil && shown < 10 {
				err = fmt.Errorf("only %d of %d packets contain its bytes", shown, packets)
			}
			b.Ok(m.name+c.shown, err)
		}
	}
}

// lookFor runs a job and counts the packets on the wire, and those with 64 times the letter.
func lookFor(w *wire.Wire, letter string, start func() *job) (packets, shown int64, err error) {
	var all, plain atomic.Int64
	text := bytes.Repeat([]byte(letter), 64)
	w.Look(func(packet []byte) {
		all.Add(1)
		if bytes.Contains(packet, text) {
			plain.Add(1)
		}
	})
	defer w.Look(nil)
	err = start().checkEnd(later, 0, "2 of 2 ranks reported")
	return all.Load(), plain.Load(), err
}

// checkBothReported checks that the job ended with status 0 and that both ranks reported
// messages.
func checkBothReported(j *job, least int) error {
	err := j.checkEnd(later, 0, "2 of 2 ranks reported")
	if err == nil && j.countMessages() < least {
		err = fmt.Errorf("%d messages were counted:\n%s", j.countMessages(), j.lastLines())
	}
	return err
}

// testCredit checks that with 4 MiB of credit 2 MB fit and 8 MB do not, by the ranks'
// counters; the printed time is only information.
func (b *bench) testCredit(m mpi, options, name string) {
	run := func(bytes string) *job {
		args := append([]string{b.skepPath(), "mpirun", "--mpi", m.prefix}, strings.Fields(options)...)
		return b.start(mpiEnvironment("SKEP_O2G_CREDIT=4M"), "", append(args, "--", m.app, "posted", bytes)...)
	}
	j := run("2000000")
	err := j.checkEnd(later, 0, "2 of 2 ranks reported")
	if err == nil && strings.Contains(j.String(), "beyond credit") {
		err = errors.New("it was asked for:\n" + j.lastLines())
	}
	b.Ok(name+"2 MB within credit are sent at once", err)
	b.Note("%s%s", name, jobTime(j))
	j = run("8000000")
	b.Ok(name+"8 MB above the credit send one request", j.checkEnd(later, 0, "2 of 2 ranks reported", "; 1 beyond credit"))
	b.Note("%s%s", name, jobTime(j))
}

func jobTime(j *job) string {
	for line := range strings.Lines(j.String()) {
		if text, found := strings.CutPrefix(line, "# "); found {
			return strings.TrimSpace(text)
		}
	}
	return "no time was said"
}

// checkSecrecy checks that no command line contains the secret while a job runs.
func (b *bench) checkSecrecy(m mpi, options string) error {
	j := b.startMPIRun(m, options, "traffic")
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = j.waitForOutput("rank 0 is talking")
	}
	if err != nil {
		return err
	}
	secret := processVariable(pids[0], "SKEP_O2G_SECRET")
	if len(secret) != 64 {
		return fmt.Errorf("rank 0 has the secret %q", secret)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && bytes.Contains(line, []byte(secret)) {
			return fmt.Errorf("%s: %q", f, line)
		}
	}
	if err := syscall.Kill(j.Cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return err
	}
	if err := j.checkEnd(soon, 130); err != nil {
		return err
	}
	return b.waitUntilGone(pids)
}

// processVariable reads a variable from a process's environment.
func processVariable(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for _, e := range strings.Split(string(text), "\x00") {
		if value, found := strings.CutPrefix(e, name+"="); found {
			return value
		}
	}
	return ""
}

// testNaming tests the ways to name hosts, interfaces and ports.
func (b *bench) testNaming(w *wire.Wire) {
	m := b.findMPICH()
	file := filepath.Join(b.tmp, "hosts")
	text := fmt.Sprintf("# two\n%s:1\n%s:1\n", w.Host(1), w.Host(2))
	err := os.WriteFile(file, []byte(text), 0o644)
	j := b.startMPIRun(m, fmt.Sprintf("--launcher %s --hostfile %s -n 2", w.Shell, file), "talk")
	b.Ok("a host file", errors.Join(err, checkBothReported(j, 10)))

	file = filepath.Join(b.tmp, "slots")
	text = fmt.Sprintf("%s slots=1\n%s slots=1\n", w.Host(1), w.Host(2))
	err = os.WriteFile(file, []byte(text), 0o644)
	j = b.startMPIRun(b.findOpenMPI(), fmt.Sprintf("--launcher %s --hostfile %s -n 2", w.Shell, file), "talk")
	b.Ok("a host file of Open MPI's kind", errors.Join(err, checkBothReported(j, 10)))

	// A loopback address would not let the hosts find this computer.
	for _, m := range []mpi{m, b.findOpenMPI()} {
		j = b.startMPIRun(m, fmt.Sprintf("--launcher %s --hosts localhost,%s --iface %s0/24 -n 2", w.Shell, w.Host(1), w.Net), "talk")
		b.Ok(m.name+": this computer first, by a loopback name", checkBothReported(j, 10))
	}

	both := fmt.Sprintf("--launcher %s --hosts %s,%s -n 2 ", w.Shell, w.Host(1), w.Host(2))
	j = b.startMPIRun(m, both+"--iface "+w.Net+"0/24 --ports 7700-7707", "traffic")
	b.Ok("an interface by its network, and ports", b.checkListening(j, w.Net, 7700, 7707))
	for _, m := range []mpi{m, b.findOpenMPI()} {
		j = b.startMPIRun(m, both+"--ports 7700-7731", "traffic")
		b.Ok(m.name+": all that listens on any host is within --ports", b.checkListeners(j, 7700, 7731))
	}
	j = b.startMPIRun(m, both+"--iface nothing0", "talk")
	b.Ok("an interface that is missing is named", j.checkFailure("nothing0"))

	four := fmt.Sprintf("--launcher %s --hosts %s:2,%s:2 -n 4 ", w.Shell, w.Host(1), w.Host(2))
	some := b.startMPIRun(m, four, "talk")
	err = some.checkEnd(later, 0, "4 of 4 ranks reported")
	all := b.startMPIRun(m, four+"--no-shm", "talk")
	err = errors.Join(err, all.checkEnd(later, 0, "4 of 4 ranks reported"))
	if err == nil && (some.countMessages() == 0 || some.countMessages() >= all.countMessages()) {
		err = fmt.Errorf("%d messages, %d with --no-shm", some.countMessages(), all.countMessages())
	}
	b.Ok("MPICH: ranks of one host use shared memory unless --no-shm", err)
	b.Note("4 ranks on 2 hosts: %d messages, %d with --no-shm", some.countMessages(), all.countMessages())
}

// checkFailure checks that the job ends with another status than 0, and says why.
func (j *job) checkFailure(text string) error {
	status, err := j.waitForEnd(later)
	if err == nil && status == 0 {
		err = errors.New("the job ended well")
	}
	if err != nil {
		return err
	}
	return j.checkOutput(text)
}

// checkListening checks that the ranks' endpoints, of which Open MPI opens two, have addresses
// of that network and ports in that range.
func (b *bench) checkListening(j *job, net string, first, last int) error {
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err != nil {
		return err
	}
	list, err := b.readEndpoints()
	if err != nil {
		return err
	}
	ranks := map[int]bool{}
	for _, e := range list {
		if !slices.Contains(pids, e.PID) {
			continue
		}
		at, err := netip.ParseAddrPort(e.Address)
		if port := int(at.Port()); err != nil || !strings.HasPrefix(at.Addr().String(), net) || port < first || port > last {
			return fmt.Errorf("rank %d listens on %s", e.PID, e.Address)
		}
		ranks[e.PID] = true
	}
	if len(ranks) != 2 {
		return fmt.Errorf("endpoints of %d of 2 ranks: %+v", len(ranks), list)
	}
	if err := syscall.Kill(j.Cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return err
	}
	return j.checkEnd(soon, 130)
}

// checkListeners checks every socket that listens on the hosts of the ranks, which run
// nothing else, and those of the job's processes on this one.
func (b *bench) checkListeners(j *job, first, last int) error {
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = j.waitForOutput("rank 0 is talking")
	}
	if err != nil {
		return err
	}
	n := 0
	check := func(pid int, own bool) {
		for _, port := range listenersOf(pid, own) {
			if n++; port < first || port > last {
				err = errors.Join(err, fmt.Errorf("process %d, or its host, listens on port %d", pid, port))
			}
		}
	}
	for _, pid := range pids {
		check(pid, false)
	}
	for _, pid := range append(childrenOf(j.Cmd.Process.Pid), j.Cmd.Process.Pid) {
		check(pid, true)
	}
	if err == nil && n < 4 {
		err = fmt.Errorf("%d listening sockets: two ranks, the launcher and skep have one each", n)
	}
	if err != nil {
		return err
	}
	if err := syscall.Kill(j.Cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return err
	}
	return j.checkEnd(soon, 130)
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f) // it may have ended
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// listenersOf returns the TCP ports that listen in the network namespace of a process: all,
// or only the process's own. Those on loopback addresses no firewall sees.
func listenersOf(pid int, own bool) (ports []int) {
	sockets := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if name, err := os.Readlink(f); err == nil {
			sockets[name] = true
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 10 || words[3] != "0A" || own && !sockets["socket:["+words[9]+"]"] || strings.HasPrefix(words[1], "0100007F") {
				continue
			}
			_, hex, _ := strings.Cut(words[1], ":")
			if port, err := strconv.ParseInt(hex, 16, 32); err == nil {
				ports = append(ports, int(port))
			}
		}
	}
	return ports
}

// testBatchStep checks that the tasks of a batch system find each other. Hydra replaces
// Slurm; it provides PMI to the tasks.
func (b *bench) testBatchStep() {
	m := b.findMPICH()
	run := func(state, number string, words ...string) *job {
		env := mpiEnvironment("SKEP_STATE="+state, "HYDRA_LAUNCHER=fork", "SLURM_JOB_ID="+number, "SLURM_STEP_ID=0",
			"SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SKEP_O2G_LOG=2", "MPIR_CVAR_NOLOCAL=1")
		args := []string{filepath.Join(m.prefix, "bin", "mpiexec"), "-rmk", "user", "-launcher", "fork", "-n", "2",
			b.skepPath(), "mpirun", "--mpi", m.prefix, "--", m.app}
		return b.start(env, "", append(args, words...)...)
	}
	state := filepath.Join(b.tmp, "state")
	j := run(state, "77", "talk")
	b.Ok("the ranks of a step find each other", j.checkEnd(later, 0, "rank 0 pid", "rank 1 pid"))
	info, err := os.Stat(filepath.Join(state, "o2g.key"))
	if err == nil && info.Mode().Perm() != 0o600 {
		err = fmt.Errorf("its mode is %v", info.Mode())
	}
	b.Ok("only the user can read the key from which steps' secrets are derived", err)

	j = run(state, "78", "traffic")
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = b.stepLooks(pids)
	}
	j.Kill()
	_, _ = j.waitForEnd(soon)
	b.Ok("the ranks of a step share a secret and listen on a reachable address", err)
	b.Ok("no process of a killed step is left", b.waitUntilGone(pids))
}

func (b *bench) stepLooks(pids []int) error {
	one, two := processVariable(pids[0], "SKEP_O2G_SECRET"), processVariable(pids[1], "SKEP_O2G_SECRET")
	if len(one) != 64 || one != two {
		return fmt.Errorf("the secrets are %d and %d bytes long, or differ", len(one), len(two))
	}
	if at := processVariable(pids[0], "SKEP_O2G_IFACE"); at != "" {
		return fmt.Errorf("they are told to listen on %s", at)
	}
	return nil
}
