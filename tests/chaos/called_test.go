// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"skep/grid/hub"
)

// ticks is how often a call of turns.turn calls its master.
const ticks = 3

// calledWhy is in the error of a call that cannot begin anew.
const calledWhy = "had called its master before, so it is not run again"

// A strike kills one program at the moment when the function, or the master's, stands before or
// behind a frame of callback `tick`: send is before CALLBACK, in is behind it, out is before
// RETURN, and back is behind that.
type strike struct {
	victim, point string
	tick          int
}

// isEarly reports whether the call has not called its master yet.
func (k strike) isEarly() bool { return k.point == "send" && k.tick == 1 }

// workerOf returns the process below an agent that has no children.
func (s *scene) workerOf(agent int) int {
	s.t.Helper()
	pid := strconv.Itoa(agent)
	for {
		n, _ := strconv.Atoi(pid)
		list := s.childrenOf(n)
		if len(list) == 0 {
			return n
		}
		pid = list[len(list)-1]
	}
}

// kill kills the victim of a strike while the call stands, starts another hub or agent, and lets
// the call go on, before that or after it.
func (s *scene) kill(k strike, run int, goOn func(), first bool) {
	s.t.Helper()
	worker := s.workerOf(s.agent.Process.Pid)
	if worker == s.agent.Process.Pid {
		s.t.Fatal("the agent has no worker")
	}
	kill := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			s.t.Fatal(err)
		}
	}
	start := func() {}
	switch k.victim {
	case "worker":
		kill(worker)
	case "agent":
		killNow(s.agent)
		start = func() { s.startAgent() }
	case "network":
		s.goAway()
		if list := skepJSON[hub.Calls](s, "calls").List; len(list) != 1 || list[0].State != hub.CallAway {
			s.t.Errorf("the calls are %+v", list)
		}
		start = func() { s.net.heal(); s.awaitNode() }
	case "paused hub":
		s.hub.Process.Signal(syscall.SIGSTOP)
		before := s.net.countEnded()
		s.await("an agent that gives the hub up", func() bool { return s.net.countEnded() > before })
		s.hub.Process.Signal(syscall.SIGCONT)
		start = s.awaitNode
	case "hub":
		killNow(s.hub)
		start = func() { s.startHub() }
	case "master":
		list := s.childrenOf(run)
		if len(list) != 1 {
			s.t.Fatalf("skep run has the children %q", list)
		}
		pid, _ := strconv.Atoi(list[0])
		kill(pid)
	}
	if k.victim == "worker" || k.victim == "agent" {
		s.awaitGone(strconv.Itoa(worker)) // it must not go on
	}
	if first {
		goOn()
	}
	start()
	goOn()
	if k.victim == "master" {
		s.awaitGone(strconv.Itoa(worker))
		s.await("the end of the call", func() bool { return skepJSON[hub.Calls](s, "calls").All == 0 })
	}
}

// callAndStrike makes a call, and returns what its master prints and what both have passed.
func (s *scene) callAndStrike(k strike, name string, first bool) (said string, passed []string) {
	s.t.Helper()
	log := s.path("log/" + name)
	point := fmt.Sprintf("%s %d\n", k.point, k.tick)
	for file, text := range map[string]string{log: "", log + ".stop": point} {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			s.t.Fatal(err)
		}
		os.Chmod(file, 0o666)
	}
	var out strings.Builder
	program := filepath.Join(s.build, "test", "chaos")
	run := s.start(&out, "run", "--state", s.path("hub"), "--modules", program, "--", filepath.Join(program, "called"), strconv.Itoa(ticks), log)
	read := func() string {
		b, err := os.ReadFile(log)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(b)
	}
	s.await("the call at "+point, func() bool { return strings.HasSuffix(read(), point) })
	s.kill(k, run.Process.Pid, func() { os.Remove(log + ".stop") }, first)
	run.Wait()
	return out.String(), strings.Split(strings.TrimSpace(read()), "\n")
}

// want is what the master prints.
func (k strike) want() string {
	switch {
	case k.victim == "master":
		return ""
	case k.victim == "hub", k.victim == "paused hub", k.victim == "network", k.isEarly():
		return "right\n"
	}
	return calledWhy
}

// Worker, agent, hub and master are killed while they stand at each frame of a callback. The call
// ends right if it had not called its master, or if its worker and its master live; else with the
// reason. In no case the master's function runs twice for one callback. SKEP_CHAOS_SEED chooses
// which callback it is.
func TestKilledAtACallback(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("SKEP_CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	random := rand.New(rand.NewPCG(seed, 2))
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	s.awaitNode()
	strikes := []strike{{"worker", "send", 1}, {"agent", "send", 1}}
	for _, victim := range []string{"worker", "agent", "hub", "master"} {
		for _, point := range []string{"send", "in", "out", "back"} {
			strikes = append(strikes, strike{victim, point, 1 + random.IntN(ticks)})
		}
	}
	for i, k := range strikes {
		first := random.IntN(2) == 0
		said, passed := s.callAndStrike(k, fmt.Sprint("turn", i), first)
		t.Logf("%+v, first %v: %q", k, first, said)
		if !strings.Contains(said, k.want()) || (said == "") != (k.want() == "") {
			t.Errorf("%+v: the master says %q, not %q", k, said, k.want())
		}
		ran := map[string]int{}
		for _, line := range passed {
			ran[line]++
		}
		for n := 1; n <= ticks; n++ {
			in, out := ran[fmt.Sprint("in ", n)], ran[fmt.Sprint("out ", n)]
			if in > 1 || out > in || k.want() == "right\n" && out != 1 {
				t.Errorf("%+v: the master's function began %d times for callback %d, and ended %d times: %q", k, in, n, out, passed)
			}
		}
	}
}
