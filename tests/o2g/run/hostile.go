// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"skep/tests/watch"
)

// testHostile connects unauthenticated peers to the ports of running jobs.
func (b *bench) testHostile() {
	for _, m := range []mpi{b.findMPICH(), b.findOpenMPI()} {
		b.testUnauthenticated(m)
	}
}

func (b *bench) testUnauthenticated(m mpi) {
	stop := filepath.Join(b.tmp, "stop-"+filepath.Base(m.prefix))
	j := b.startMPIRun(m, "--no-shm -n 2", "until", stop)
	defer j.Kill()
	pids, err := j.waitForRanks(2)
	if err == nil {
		err = watch.Poll(soon, func() error { return b.checkCounters(pids) })
	}
	if err != nil {
		b.Ok(m.name+": a job to attack", err)
		return
	}
	list, err := b.endpointsOf(pids)
	if err == nil {
		err = connectMany(list, processVariable(pids[0], "SKEP_O2G_SECRET"))
	}
	b.Ok(m.name+": peers with garbage, silence or a false proof are refused", err)
	b.Ok(m.name+": unauthenticated peers at the launcher's port are ignored", checkReports(processVariable(pids[0], "SKEP_O2G_REPORT")))
	b.Ok(m.name+": the job runs on meanwhile", b.checkUndisturbed(list, pids))
	err = os.WriteFile(stop, nil, 0o644)
	b.Ok(m.name+": the attacked job ends with status 0 and its reports", errors.Join(err, j.checkEnd(later, 0, "2 of 2 ranks reported")))
}

// endpointsOf lists the endpoints of all ranks. Open MPI opens two in each, and uses the
// second one for remote memory access only.
func (b *bench) endpointsOf(pids []int) ([]endpoint, error) {
	list, err := b.readEndpoints()
	list = slices.DeleteFunc(list, func(e endpoint) bool { return !slices.Contains(pids, e.PID) })
	for _, pid := range pids {
		if err == nil && !slices.ContainsFunc(list, func(e endpoint) bool { return e.PID == pid }) {
			err = fmt.Errorf("rank %d has no endpoint in %+v", pid, list)
		}
	}
	return list, err
}

// connectMany opens many connections at once, of each kind to each endpoint.
func connectMany(list []endpoint, secret string) error {
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) != 32 {
		return fmt.Errorf("the secret is %q", secret)
	}
	kinds := []func(net.Conn, endpoint, []byte, *atomic.Int32) error{sendGarbage, waitSilently, falseProof}
	errs := make(chan error, 1000)
	challenges := make([]atomic.Int32, len(list))
	var all sync.WaitGroup
	for n, e := range list {
		for i := range 120 {
			all.Go(func() {
				conn, err := net.DialTimeout("tcp", e.Address, soon)
				if err != nil {
					errs <- err
					return
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(soon))
				errs <- kinds[i%len(kinds)](conn, e, key, &challenges[n])
			})
		}
	}
	all.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	for n := range challenges {
		if challenges[n].Load() == 0 {
			err = errors.Join(err, fmt.Errorf("%s let nobody come as far as a false proof", list[n].Address))
		}
	}
	return err
}

func sendGarbage(conn net.Conn, _ endpoint, _ []byte, _ *atomic.Int32) error {
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(rand.Int())
	}
	_, _ = conn.Write(b) // the connection may be closed while it writes
	return hungUp(conn, "garbage", 0)
}

// waitSilently sends nothing. The endpoint closes the connection after a timeout, or earlier to accept others.
func waitSilently(conn net.Conn, _ endpoint, _ []byte, _ *atomic.Int32) error {
	return hungUp(conn, "silence", 0)
}

// falseProof knows what an eavesdropper knows: the names of the job and of the endpoint. It
// sends a false proof, and a message at once in case the proof is accepted.
func falseProof(conn net.Conn, e endpoint, secret []byte, challenges *atomic.Int32) error {
	id, err := hex.DecodeString(e.ID)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("endpoint %q", e.ID)
	}
	name := sha256.Sum256(append([]byte("o2g job"), secret...))
	hello := binary.LittleEndian.AppendUint32(nil, 0x31473253)
	hello = binary.LittleEndian.AppendUint32(hello, 3)
	hello = append(hello, name[:16]...)
	hello = append(hello, bytes.Repeat([]byte{0xaa}, 16)...) // from
	hello = append(hello, id...)                             // to
	hello = append(hello, bytes.Repeat([]byte{0xbb}, 16)...) // nonce
	location := []byte{4, 0, 0x11, 0x11, 0, 0, 0, 0, 127, 0, 0, 1}
	hello = append(hello, append(location, make([]byte, 12)...)...)
	if _, err := conn.Write(hello); err != nil {
		return nil // closed to make room for others
	}
	if _, err := io.ReadFull(conn, make([]byte, 104)); err != nil {
		return nil // closed to make room for others
	}
	challenges.Add(1)
	proof := make([]byte, 40)
	binary.LittleEndian.PutUint32(proof, 1<<20)
	message := make([]byte, 48)
	message[0], message[8] = 1, 1
	_, _ = conn.Write(append(proof, message...))
	return hungUp(conn, "a false proof", 0)
}

// hungUp returns an error unless the peer closes the stream after at most `most` bytes.
func hungUp(conn net.Conn, what string, most int) error {
	got, err := io.ReadAll(io.LimitReader(conn, 1000))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s was not hung up on", what)
	}
	if len(got) > most {
		return fmt.Errorf("%s was answered with %d bytes", what, len(got))
	}
	return nil
}

// checkReports checks that the launcher's port accepts only records with the job's MAC.
func checkReports(address string) error {
	for _, text := range [][]byte{nil, []byte("GET / HTTP/1.0\r\n\r\n"), bytes.Repeat([]byte{0xff}, 1<<16), make([]byte, 128)} {
		conn, err := net.DialTimeout("tcp", address, soon)
		if err != nil {
			return err
		}
		_, _ = conn.Write(text) // the connection may be closed while it writes
		conn.Close()
	}
	return nil
}

// checkUndisturbed checks that both endpoints have sent and received more since, still have
// one peer, and have counted unauthenticated peers.
func (b *bench) checkUndisturbed(before []endpoint, pids []int) error {
	return watch.Poll(soon, func() error {
		after, err := b.endpointsOf(pids)
		if err != nil {
			return err
		}
		for _, e := range after {
			i := slices.IndexFunc(before, func(o endpoint) bool { return o.ID == e.ID })
			if i < 0 {
				return fmt.Errorf("%+v was opened meanwhile", e)
			}
			moves := e.Sent > before[i].Sent && e.Received > before[i].Received
			if !moves && before[i].Sent > 0 || e.Refused == 0 || e.Connected != before[i].Connected {
				return fmt.Errorf("before %+v\nafter  %+v", before[i], e)
			}
		}
		return nil
	})
}

// Ports of jobs whose ranks are killed, by which leftover sockets are found. There are many,
// because a port stays in TIME_WAIT for a minute.
const firstPort, lastPort = 17000, 17999

// testKills starts n jobs and kills a random rank of each during its traffic. A launcher
// that notices it before the other ranks kills them before they can report it. So some
// launchers are stopped meanwhile.
func (b *bench) testKills(n int) {
	said, free := 0, 0
	for i := range n {
		m, held := b.findMPICH(), i%3 == 1
		if i%3 == 2 {
			m = b.findOpenMPI()
		}
		v := victims{file: filepath.Join(b.tmp, fmt.Sprintf("said-%d", i)), held: held}
		err := b.killOne(m, &v)
		if err == nil {
			err = b.checkLeftovers()
		}
		b.Ok(fmt.Sprintf("%s: random kill %d", m.name, i+1), err)
		if held {
			b.Ok(fmt.Sprintf("%s: random kill %d: both survivors name the cause", m.name, i+1), v.checkReported(2, "reset by peer"))
			continue
		}
		free++
		// With Open MPI the launcher reports it.
		if v.checkReported(1, "reset by peer") == nil || strings.Contains(v.output, "MPI_ERR") {
			said++
		}
	}
	b.Note("in %d of %d other jobs a survivor said why before its launcher ended it", said, free)
}

// victims are the ranks of a job, one of which is killed, and their output.
type victims struct {
	file   string // and a rank's process: its standard error
	held   bool   // the launcher is stopped until the survivors have ended
	pids   []int
	output string // of the job
}

func (b *bench) killOne(m mpi, v *victims) error {
	args := []string{b.skepPath(), "mpirun", "--mpi", m.prefix, "--no-shm", "-n", "3", "--ports", fmt.Sprintf("%d-%d", firstPort, lastPort),
		"--", "/bin/sh", "-c", `exec "$0" traffic 2>"$1.$$"`, m.app, v.file}
	j := b.start(mpiEnvironment(), "", args...)
	defer j.Kill()
	var err error
	v.pids, err = j.waitForRanks(3)
	if err == nil {
		err = j.waitForOutput("rank 0 is talking", "rank 1 is talking", "rank 2 is talking")
	}
	if err != nil {
		return err
	}
	if err := v.kill(); err != nil {
		return err
	}
	status, err := j.waitForEnd(soon)
	v.output = j.String()
	if err == nil && status == 0 {
		err = errors.New("the job ended well:\n" + j.lastLines())
	}
	if err == nil {
		err = j.checkOutput("of 3 ranks reported")
	}
	if err == nil {
		err = b.waitUntilGone(v.pids)
	}
	return err
}

// kill ends one of them.
func (v *victims) kill() error {
	if v.held {
		thaw, err := stopProcess(parentPID(v.pids[0]))
		if err != nil {
			return err
		}
		defer thaw()
	}
	time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // kill at a random time
	if err := syscall.Kill(v.pids[rand.IntN(len(v.pids))], syscall.SIGKILL); err != nil || !v.held {
		return err
	}
	return watch.Poll(soon, func() error {
		for _, pid := range v.pids {
			if isAlive(pid) {
				return fmt.Errorf("process %d outlives a killed peer", pid)
			}
		}
		return nil
	})
}

// stopProcess sends SIGSTOP and waits until the process has stopped.
func stopProcess(pid int) (thaw func(), err error) {
	if pid <= 1 {
		return nil, errors.New("a rank has no launcher")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // fails if the process has ended
	err = watch.Poll(soon, func() error {
		if s := readStat(pid); len(s) == 0 || s[0] != "T" {
			return fmt.Errorf("process %d does not stop: %v", pid, s)
		}
		return nil
	})
	if err != nil {
		thaw()
	}
	return thaw, err
}

// checkReported checks that at least so many ranks reported it.
func (v *victims) checkReported(least int, what string) error {
	n, all := 0, ""
	for _, pid := range v.pids {
		text, _ := os.ReadFile(fmt.Sprintf("%s.%d", v.file, pid))
		if strings.Contains(string(text), what) {
			n++
		}
		all += string(text)
	}
	if n < least {
		return fmt.Errorf("%d of %d said %q:\n%s", n, least, what, all)
	}
	return nil
}

// checkLeftovers checks that no sockets and, in a private /dev/shm, no files remain. It
// ignores mpich_shm_*, which MPICH leaves when its ranks are killed, with or without O2G.
func (b *bench) checkLeftovers() error {
	list, _ := filepath.Glob("/dev/shm/*")
	for _, path := range list {
		name := filepath.Base(path)
		if !b.private || name == fmt.Sprintf("skep-o2g-%d", os.Getuid()) {
			continue // waitUntilGone has checked this folder
		}
		if !strings.HasPrefix(name, "mpich_shm_") {
			return errors.New("left: " + path)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return watch.Poll(soon, func() error { return findSockets(firstPort, lastPort) })
}

// findSockets returns an error if a socket on such a port is open. State 06, TIME_WAIT,
// belongs to the kernel and is ignored.
func findSockets(first, last int) error {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		var port int
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		_, at, _ := strings.Cut(words[1], ":")
		if _, err := fmt.Sscanf(at, "%x", &port); err == nil && port >= first && port <= last && words[3] != "06" {
			return fmt.Errorf("left: a socket on port %d in state %s", port, words[3])
		}
	}
	return nil
}
