// SPDX-License-Identifier: MIT

package moves

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/proto"
)

// A program that is moved prints what it prints otherwise, keeps its files, and its exit code
// arrives.
func TestMoves(t *testing.T) {
	s := newScene(t)
	for _, libc := range []string{"dynamic", "musl"} {
		j := s.beginOpen([]string{"--movable"}, "work-"+libc, "count", "250", "10")
		for range 4 {
			from := j.node()
			s.must("move", j.number)
			if to := j.node(); to == from {
				t.Errorf("%s: it is on %s, as before", libc, to)
			}
		}
		j.input.Close()
		if code := j.end(); code != 7 || j.out.String() != numbers(250) {
			t.Errorf("%s: exit code %d, %d bytes of output; %s", libc, code, len(j.out.String()), j.err.String())
		}
	}
	s.await("the end of the images", func() bool {
		programs, images := s.blobs()
		return programs == 3*2 && images == 0
	})
}

// A dynamic program of the distribution goes on, with a library that it loads after its moves.
func TestPython(t *testing.T) {
	const python, script = "/usr/bin/python3", `
import hashlib, time
h = hashlib.sha256()
for i in range(300):
    h.update(str(i).encode())
    print(h.hexdigest(), flush=True)
    time.sleep(0.01)
import sqlite3
print(*sqlite3.connect(":memory:").execute("select sum(value) from json_each('[1,2,3]')").fetchone())
`
	native := exec.Command(python, "-")
	native.Stdin = strings.NewReader(script)
	want, err := native.Output()
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	j := s.begin(script, []string{"--movable"}, python, "-")
	for range 3 {
		s.must("move", j.number)
	}
	if code := j.end(); code != 0 || j.out.String() != string(want) {
		t.Errorf("exit code %d, %d of %d bytes of output; %s", code, len(j.out.String()), len(want), j.err.String())
	}
}

// A shell moves with the processes that it started, which read and write its pipes, and with
// one that has ended before it is waited for.
func TestProcesses(t *testing.T) {
	const shell, script = "/usr/bin/dash", `
( exit 3 ) & ended=$!
sleep 100 & killed=$!
i=0
while [ $i -lt 80 ]; do
	i=$((i + 1))
	echo $i
	sleep 0.03
done | while read -r n; do
	echo "$n $(echo "$n" | tr 0-9 a-j)"
done | cat
wait $ended; echo "ended $?"
kill $killed; wait $killed; echo "killed $?"
`
	native := exec.Command(shell, "-")
	native.Stdin = strings.NewReader(script)
	want, err := native.Output()
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t)
	j := s.begin(script, []string{"--movable"}, shell, "-")
	for range 3 {
		s.await("a move, which is refused if a process does not rest in time", func() bool {
			_, err := s.command("move", j.number)
			return err == nil || len(j.over) > 0
		})
	}
	if code := j.end(); code != 0 || j.out.String() != string(want) {
		t.Errorf("exit code %d, %d of %d bytes of output; %s", code, len(j.out.String()), len(want), j.err.String())
	}
	s.awaitNothing()
}

// blobs counts what the hub and both nodes store: programs, and all else.
func (s *scene) blobs() (programs, others int) {
	for _, of := range []string{"hub", "a", "b"} {
		_ = filepath.WalkDir(s.path(of), func(path string, e fs.DirEntry, err error) error {
			if err != nil || filepath.Base(filepath.Dir(path)) != "sha256" {
				return nil // gone meanwhile
			}
			b, err := os.ReadFile(path)
			switch {
			case bytes.HasPrefix(b, []byte("\x7fELF")):
				programs++
			case err == nil:
				others++
			}
			return nil
		})
	}
	return programs, others
}

// A program that starts others again and again has them rewritten once.
func TestImageCache(t *testing.T) {
	s := newScene(t)
	j := s.beginOpen([]string{"--movable"}, "work-dynamic", "count", "1", "10")
	s.await("images of what it runs", func() (found bool) {
		_ = filepath.WalkDir(s.path(j.node()), func(path string, e fs.DirEntry, err error) error {
			found = found || err == nil && e.Type().IsRegular() && filepath.Base(filepath.Dir(path)) == "cache"
			return nil // gone meanwhile
		})
		return found
	})
	j.input.Close()
	if code := j.end(); code != 7 {
		t.Errorf("exit code %d; %s", code, j.err.String())
	}
}

// Input that a program has not read moves with it.
func TestInput(t *testing.T) {
	s := newScene(t)
	input := numbers(40000) // more than its pipe and the hub's window have room for
	j := s.begin(input, []string{"--checkpoint", "1"}, "work-glibc", "copy")
	for range 3 {
		s.must("move", j.number)
	}
	s.must("checkpoint", j.number)
	if code := j.end(); code != 0 || j.out.String() != input || !strings.Contains(j.err.String(), "40000 lines\n") {
		t.Errorf("exit code %d, %d of %d bytes of output; %s", code, len(j.out.String()), len(input), j.err.String())
	}
	s.await("the end of the checkpoint", func() bool {
		_, images := s.blobs()
		return images == 0
	})
}

// A program whose node is killed goes on from its last checkpoint elsewhere, and no line is
// printed twice.
func TestLostNode(t *testing.T) {
	s := newScene(t)
	j := s.begin("", []string{"--checkpoint", "1"}, "work-glibc", "count", "400", "10")
	s.await("a checkpoint", func() bool { return j.out.String() != "" })
	from := j.node()
	s.kill(s.agents[from])
	if code := j.end(); code != 7 || j.out.String() != numbers(400) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(j.out.String()), j.err.String())
	}
	if !strings.Contains(j.err.String(), "it goes on from its last checkpoint") {
		t.Errorf("the user was not told: %s", j.err.String())
	}
	s.startAgent(from)
	s.awaitNodes()
	j = s.begin("", []string{"--movable"}, "work-glibc", "count", "400", "10")
	s.kill(s.agents[j.node()])
	if code := j.end(); code == 7 || code == 0 || !strings.HasPrefix(numbers(400), j.out.String()) {
		t.Errorf("without a checkpoint: exit code %d; %s", code, j.err.String())
	}
}

// A program on a drained node for which no other node has room leaves once there is one.
func TestLeavesLater(t *testing.T) {
	s := newScene(t)
	j := s.beginOpen([]string{"--movable"}, "work-glibc", "count", "100", "10")
	from, to := j.node(), "a"
	if from == "a" {
		to = "b"
	}
	s.must("nodes", "--drain", to)
	drained := s.start(&s.said, "nodes", "--drain", from, "--move")
	s.await("the drain", func() bool { return strings.Contains(s.must("nodes"), "draining") })
	s.must("nodes", "--reopen", to)
	s.await("the move", func() bool { return j.node() == to })
	if err := drained.Wait(); err != nil {
		t.Error("the drain did not end: ", err)
	}
	j.input.Close()
	if code := j.end(); code != 7 || j.out.String() != numbers(100) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(j.out.String()), j.err.String())
	}
}

// What runs on a node that is shut down goes on elsewhere, without a checkpoint and not from its
// beginning. The node is away only then.
func TestShutDown(t *testing.T) {
	s := newScene(t)
	j := s.beginOpen([]string{"--movable"}, "work-glibc", "count", "200", "10")
	s.await("some output", func() bool { return strings.Contains(j.out.String(), "\n9\n") })
	from := j.node()
	s.terminate(from)
	s.await("the move", func() bool { return strings.Count(j.err.String(), " runs on ") == 2 })
	if to := j.node(); to == from || to == "" {
		t.Errorf("it is on %q", to)
	}
	if err := s.agents[from].Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	j.input.Close()
	if code := j.end(); code != 7 || j.out.String() != numbers(200) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(j.out.String()), j.err.String())
	}
	s.awaitNothing()
}

// terminate sends an agent the signal with which a system that shuts down ends it.
func (s *scene) terminate(name string) {
	s.t.Helper()
	if err := s.agents[name].Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
}

// A program that can go nowhere ends when its node is shut down, and its user reads why. One with
// a checkpoint goes on from there when a node is back.
func TestShutDownOfAll(t *testing.T) {
	s := newScene(t)
	s.must("nodes", "--drain", "b")
	lost := s.beginOpen([]string{"--movable"}, "work-glibc", "count", "100", "10")
	stuck := s.beginOpen([]string{"--movable"}, "work-glibc", "socket")
	kept := s.beginOpen([]string{"--checkpoint", "1"}, "work-glibc", "count", "100", "10")
	s.await("a checkpoint", func() bool { return kept.out.String() != "" })
	s.terminate("a")
	for _, j := range []*job{lost, stuck} {
		if code := j.end(); code == 0 || code == 7 || !strings.Contains(j.err.String(), "its node is shut down, and there is no other node that is up and takes it") {
			t.Errorf("exit code %d; %s", code, j.err.String())
		}
	}
	if err := s.agents["a"].Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	s.startAgent("a")
	kept.input.Close()
	if code := kept.end(); code != 7 || kept.out.String() != numbers(100) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(kept.out.String()), kept.err.String())
	}
	s.must("nodes", "--reopen", "b")
	stuck = s.beginOpen([]string{"--movable"}, "work-glibc", "socket")
	s.await("its socket", func() bool { return stuck.out.String() == "ready\n" })
	s.terminate(stuck.node())
	if code := stuck.end(); code == 0 || !strings.Contains(stuck.err.String(), "its node is shut down, and it cannot be saved now: descriptor 3 is a socket") {
		t.Errorf("exit code %d; %s", code, stuck.err.String())
	}
}

// A second signal ends an agent that moves its programs. One with a checkpoint goes on from there
// on another node, as if the agent had been killed.
func TestSecondSignal(t *testing.T) {
	s := newScene(t)
	j := s.begin("", []string{"--checkpoint", "1"}, "work-glibc", "count", "200", "10")
	s.await("a checkpoint", func() bool { return j.out.String() != "" })
	from := j.node()
	s.hub.Process.Signal(syscall.SIGSTOP) // it answers nothing
	ended := make(chan struct{})
	go func() { s.agents[from].Wait(); close(ended) }()
	s.terminate(from)
	s.await("the agent's wait", func() bool { return strings.Contains(s.said.String(), "a second signal ends it at once") })
	s.terminate(from)
	select {
	case <-ended:
		t.Error("signals that are sent twice at once, as by timeout(1), are one")
	case <-time.After(300 * time.Millisecond):
	}
	began := time.Now()
	s.await("the agent's end", func() bool {
		s.agents[from].Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	s.hub.Process.Signal(syscall.SIGCONT)
	if code := j.end(); code != 7 || j.out.String() != numbers(200) {
		t.Errorf("exit code %d, %d bytes of output; %s", code, len(j.out.String()), j.err.String())
	}
}

// What cannot be done is refused by name, and the program goes on.
func TestRefusals(t *testing.T) {
	s := newScene(t)
	j := s.beginOpen([]string{"--movable", "--on", "node=a"}, "work-glibc", "socket")
	s.await("its socket", func() bool { return j.out.String() == "ready\n" })
	for _, c := range []struct {
		want string
		line []string
	}{
		{"descriptor 3 is a socket", []string{"move", j.number, "b"}},
		{"it runs there", []string{"move", j.number, "a"}},
		{"there is no node c", []string{"move", j.number, "c"}},
		{"there is no other node", []string{"move", j.number}}, // --on selects one
		{"there is no job 77", []string{"move", "77"}},
		{"started without --checkpoint", []string{"checkpoint", j.number}},
	} {
		if out, err := s.command(c.line...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %q, %v", c.line, out, err)
		}
	}
	s.must("nodes", "--drain", "b")
	if _, err := s.command("move", j.number, "b"); err == nil || !strings.Contains(err.Error(), "the node b is drained") {
		t.Errorf("a drained node: %v", err)
	}
	s.must("nodes", "--reopen", "b")
	j.input.Close()
	if code := j.end(); code != 0 {
		t.Errorf("exit code %d; %s", code, j.err.String())
	}
	j = s.beginOpen([]string{"--movable"}, "work-glibc", "count", "200", "10")
	from := j.node()
	s.must("nodes", "--drain", from, "--move")
	s.await("the move from a drained node", func() bool { return j.node() != from })
	j.input.Close()
	if code := j.end(); code != 7 || j.out.String() != numbers(200) {
		t.Errorf("exit code %d; %s", code, j.err.String())
	}
	s.must("nodes", "--reopen", from)
}

// The program and all that belongs to it end with its command, and with the hub.
func TestNothingIsLeft(t *testing.T) {
	s := newScene(t)
	j := s.begin("", []string{"--movable"}, "work-glibc", "count", "100000", "10")
	s.must("move", j.number)
	j.Process.Kill()
	s.awaitNothing()
	j = s.begin("", []string{"--checkpoint", "1"}, "work-glibc", "count", "100000", "10")
	s.await("a checkpoint", func() bool { return j.out.String() != "" })
	s.kill(s.hub)
	if code := j.end(); code == 0 || code == 7 {
		t.Errorf("exit code %d without a hub", code)
	}
	s.awaitNothing()
}

// awaitNothing waits until no node has a process or a folder of a program.
func (s *scene) awaitNothing() {
	s.t.Helper()
	s.await("the end of the program's processes and folders", func() bool {
		out, _ := exec.Command("pgrep", "-f", "--", s.dir+"/.*--control").Output()
		left := len(out)
		for name := range s.agents {
			list, err := filepath.Glob(s.path(name) + "/agent/work/tmp/*")
			if _, failed := os.Stat(s.path(name) + "/agent/work/tmp"); failed != nil || err != nil {
				s.t.Fatal(failed, err)
			}
			left += len(list)
		}
		return left == 0
	})
}

// Agents are killed at seeded moments of a move. The program goes on once, from where it was
// or from its checkpoint, and its output is whole.
func TestDeaths(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("SKEP_MOVES"))
	if rounds == 0 {
		rounds = 3
	}
	s := newScene(t)
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 22))
		j := s.begin("", []string{"--checkpoint", "1"}, "work-glibc", "count", "200", "10")
		s.await("a checkpoint", func() bool { return j.out.String() != "" })
		victim := []string{"a", "b"}[r.IntN(2)]
		after := time.NewTimer(time.Duration(r.IntN(250)) * time.Millisecond)
		moved := make(chan error, 1)
		go func() {
			_, err := s.command("move", j.number)
			moved <- err
		}()
		<-after.C
		s.kill(s.agents[victim])
		err := <-moved
		s.startAgent(victim)
		if code := j.end(); code != 7 || j.out.String() != numbers(200) {
			t.Fatalf("seed %d: %s was killed; exit code %d, %d bytes of output; the move: %v; %s", seed, victim, code, len(j.out.String()), err, j.err.String())
		}
		s.awaitNodes()
	}
	s.awaitNothing()
}

// Much memory moves, while a part of it is written to again and again. The soak gives the figures
// of 200 MiB, of which 30 MiB are written to, 50 MiB in a second. However slow the computer is,
// less than half of the memory is sent again.
func TestLargeMoves(t *testing.T) {
	size, rounds := 20, 2
	if os.Getenv("SKEP_MOVES") != "" {
		size, rounds = 200, 100
	}
	s := newScene(t)
	j := s.beginOpen([]string{"--movable"}, "work-glibc", "fill", fmt.Sprint(size), "15")
	s.await("its memory", func() bool { return j.out.String() == "ready\n" })
	var pauses []time.Duration
	for range rounds {
		var v struct {
			PauseNS int64 `json:"pause_ns"`
			Bytes   int64
			Account proto.ExecAccount
		}
		if err := json.Unmarshal([]byte(s.must("move", "--json", j.number)), &v); err != nil {
			t.Fatal(err)
		}
		if pauses = append(pauses, time.Duration(v.PauseNS)); v.Bytes < int64(size)<<20*9/10 {
			t.Errorf("an image of %d bytes has not all of the memory", v.Bytes)
		}
		if v.Bytes > int64(size)<<20*3/2 {
			t.Errorf("%d bytes were sent for %d MiB", v.Bytes, size)
		}
		t.Logf("%d MiB: %v; %d bytes were sent; %+v", size, time.Duration(v.PauseNS), v.Bytes, v.Account)
	}
	slices.Sort(pauses)
	t.Logf("%d MiB: it stood still for %v (least), %v (middle), %v (most)", size, pauses[0], pauses[len(pauses)/2], pauses[len(pauses)-1])
	j.input.Close()
	if code := j.end(); code != 7 {
		t.Errorf("exit code %d; %s", code, j.err.String())
	}
}

// The answers for programs.
func TestJSON(t *testing.T) {
	s := newScene(t)
	j := s.begin("", []string{"--movable"}, "work-glibc", "count", "100", "10")
	var v struct {
		Job, Node string
		Moves     int
		PauseNS   int64 `json:"pause_ns"`
		Bytes     int64
	}
	if err := json.Unmarshal([]byte(s.must("move", "--json", j.number)), &v); err != nil {
		t.Fatal(err)
	}
	if v.Job != j.number || v.Node != j.node() || v.Moves != 1 || v.PauseNS <= 0 || v.Bytes <= 0 {
		t.Error(fmt.Sprintf("%+v", v))
	}
	if code := j.end(); code != 7 {
		t.Errorf("exit code %d", code)
	}
}
