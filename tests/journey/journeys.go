// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"skep/tests/watch"
)

func listJourneys() []journey {
	return []journey{
		{"usage", false, journeyUsage},
		{"cluster", false, journeyTwoNodes},
		{"cluster", true, journeyTwoNodes},
		{"tokens", false, journeyTokens},
		{"certificates", false, journeyCertificates},
		{"revisions", false, journeyRevisions},
		{"run", false, journeyMasters},
		{"killed", false, journeyKilledAgent},
		{"killed", true, journeyKilledAgent},
		{"restart", false, journeyHubRestart},
		{"restart", true, journeyHubRestart},
		{"programs", false, journeyPrograms},
		{"programs", true, journeyPrograms},
	}
}

// journeyUsage tests commands that need no hub, and errors of commands that need one.
func journeyUsage(s *stage) {
	wrong := func(code int, words []string, args ...string) {
		s.runStep("skep "+strings.Join(args, " "), func() error {
			o, err := s.run(nil, append([]string{s.skepPath()}, args...)...)
			if err != nil {
				return err
			}
			return o.checkOutcome(code, "", words...)
		})
	}
	wrong(2, []string{"skep token"}, "join", "--state", "alone")
	wrong(2, []string{"usage: skep up"}, "up", "somewhere")
	wrong(2, []string{"--slots"}, "up", "--slots", "many")
	wrong(2, []string{"usage: skep exec"}, "exec", "--on", "all")
	wrong(2, []string{"usage: skep run"}, "run")
	wrong(2, []string{"help"}, "frobnicate")
	wrong(2, []string{"HOST:PORT"}, "up", "--listen", "nowhere")
	wrong(2, []string{"HOST:PORT"}, "up", "--advertise", "nowhere")
	wrong(2, []string{"name of a node"}, "nodes", "--remove", "")
	wrong(126, []string{"can't be run"}, "run", "--", "/")
	wrong(127, []string{"can't be run"}, "run", "--", "nowhere/master")
	wrong(3, []string{"skep up"}, "nodes", "--state", "nowhere")
	wrong(3, []string{"skep up"}, "exec", "--state", "nowhere", "--", s.programPath("glibc/hello"))
	wrong(3, []string{"127.0.0.1:1"}, "join", "127.0.0.1:1", "--state", "alone", "--token", someToken)
	wrong(2, []string{"token"}, "join", "127.0.0.1:1", "--state", "alone", "--token", "nonsense")
	wrong(2, []string{"token"}, "join", "127.0.0.1:1", "--state", "alone")
	s.runStep("skep doctor", func() error {
		o, err := s.run(nil, s.skepPath(), "doctor", "--state", "fresh")
		if err != nil {
			return err
		}
		return o.checkOutcome(0, any)
	})
	s.runStep("skep help", func() error {
		o, err := s.run(nil, s.skepPath(), "help")
		if err == nil && !strings.Contains(o.stdout, "skep exec") {
			err = fmt.Errorf("%v", o)
		}
		return err
	})
}

// someToken is a well-formed token that belongs to no hub: 56 zero bytes.
var someToken = "skep1." + strings.Repeat("a", 90)

// journeyTwoNodes: from nothing to programs that run on two nodes.
func journeyTwoNodes(s *stage) {
	c := s.startPair()
	s.runStep("nodes prints the properties of each node", func() error { return tellsNodes(c) })
	s.runStep("nodes prints a table", func() error {
		o, err := s.run(nil, s.skepPath(), "nodes", "--state", c.state)
		if err != nil {
			return err
		}
		if ok, _ := regexp.MatchString(`(?m)^NAME +OS +SUBSTRATE +CONFINED +CPUS +FREE +STATE +KERNEL +LAST SEEN +SYSTEM\nhere +linux `, o.stdout); !ok {
			return fmt.Errorf("%v", o)
		}
		return nil
	})
	hello := s.programPath("glibc/hello")
	for _, name := range []string{"here", "second"} {
		s.runStep("hello on "+name, func() error {
			return c.wantExec("node="+name, 7, "hello, world\n", hello)
		})
		s.runStep("exit codes on "+name, func() error {
			if err := c.wantExec("node="+name, 0, any, s.programPath("musl/exits"), "code", "0"); err != nil {
				return err
			}
			if err := c.wantExec("node="+name, 255, any, s.programPath("musl/exits"), "code", "255"); err != nil {
				return err
			}
			return c.wantExec("node="+name, 128+15, any, s.programPath("musl/exits"), "signal", "15")
		})
		s.runStep("input and output stream through "+name, func() error { return checkStreams(c, "node="+name) })
		s.runStep("arguments reach "+name, func() error {
			return c.wantExec("node="+name, 0, "a b| \"c\\ |ä|\n", "/bin/busybox", "printf", "%s|%s|%s|\n", "a b", ` "c\ `, "ä")
		})
	}
	checkBounds(c)
	checkSelections(c, hello)
	s.runStep("the second agent stops when asked to", func() error { return stopSecond(c) })
	s.runStep("the stopped node is no longer up", func() error { return c.waitForNodes("here") })
	s.runStep("the hub stops when asked to", func() error { return s.stopActor(c.hub) })
}

// checkBounds checks what a program on the hub's own node can reach, and its limits.
func checkBounds(c *cluster) {
	s := c.s
	s.runStep("a program on the hub's node sees nothing of the hub", func() error {
		if _, err := os.Stat(filepath.Join(c.state, "hub")); err != nil {
			return err // without the file, the check would see nothing
		}
		o, err := c.exec("", "node=here", "/bin/busybox", "ls", "-R", c.state)
		if seen := regexp.MustCompile(`(?m)^(hub|node|logs|blobs)$`).FindString(o.stdout); err == nil && seen != "" {
			err = fmt.Errorf("%s of %v", seen, o)
		}
		return err
	})
	s.runStep("--memory is obeyed", func() error {
		o, err := s.run(nil, s.skepPath(), "exec", "--state", c.state, "--on", "node=here", "--memory", "50M", "--",
			"/bin/busybox", "sh", "-c", "a=0123456789abcdef; while :; do a=$a$a; done")
		if err != nil {
			return err
		}
		return o.checkOutcome(137, "", "of memory, more than the 50 MiB allowed; ask for more with --memory")
	})
	s.runStep("--slots beside a hub is refused", func() error {
		o, err := s.run(nil, s.skepPath(), "run", "--state", c.state, "--slots", "1", "--", "/bin/true")
		if err != nil {
			return err
		}
		return o.checkOutcome(2, "", "a hub runs here: --slots of 'skep up'")
	})
	s.runStep("logs are shown", func() error {
		o, err := s.run(nil, s.skepPath(), "logs", "--state", c.state, "--on", "node=here")
		if err != nil {
			return err
		}
		return o.checkOutcome(0, "")
	})
}

// checkSelections checks which nodes run a program that prints a line and exits with 7.
func checkSelections(c *cluster, hello string) {
	s := c.s
	s.runStep("hello on any", func() error { return c.wantExec("any", 7, "hello, world\n", hello) })
	s.runStep("hello on all, each line with its node", func() error {
		o, err := c.exec("", "all", hello)
		if err != nil {
			return err
		}
		for _, name := range []string{"here", "second"} {
			if strings.Count(o.stdout, name+": hello, world\n") != 1 {
				return fmt.Errorf("%s is not there once: %v", name, o)
			}
		}
		return o.checkOutcome(7, any)
	})
	s.runStep("a selector that matches nothing", func() error {
		o, err := c.exec("", "node=nobody", hello)
		if err != nil {
			return err
		}
		return o.checkOutcome(3, "", "node=nobody")
	})
	s.runStep("a wrong selector", func() error {
		o, err := c.exec("", "Colour=red", hello)
		if err != nil {
			return err
		}
		return o.checkOutcome(2, "", "Colour=red")
	})
}

// stopSecond stops the second agent. Under Wine it is killed, because Wine does not turn
// signals into console events.
func stopSecond(c *cluster) error {
	if c.wine {
		c.second.KillAlone()
		return nil
	}
	return c.s.stopActor(c.second)
}

func tellsNodes(c *cluster) error {
	list, err := c.listNodes()
	if err != nil {
		return err
	}
	for _, n := range list {
		want := node{Name: n.Name, OS: "linux", Substrate: "linux"}
		system := "Linux "
		if n.Name == "second" && c.wine {
			want = node{Name: n.Name, OS: "windows", Substrate: "bee-windows"}
			system = "Wine "
		}
		if n.OS != want.OS || n.Substrate != want.Substrate || !strings.HasPrefix(n.System, system) || n.CPUs < 1 || n.Slots < 1 {
			return fmt.Errorf("%+v, wanted %+v on %s", n, want, system)
		}
	}
	return nil
}

// checkStreams sends three megabytes to a program that sends them back.
func checkStreams(c *cluster, on string) error {
	var in strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for in.Len() < 3<<20 {
		fmt.Fprintf(&in, "%x\r\n\x00\x1a", r.Uint64())
	}
	o, err := c.exec(in.String(), on, "/bin/busybox", "cat")
	if err != nil {
		return err
	}
	if o.code != 0 || o.stdout != in.String() {
		return fmt.Errorf("%d of %d bytes came back, exit code %d: %.500s", len(o.stdout), in.Len(), o.code, o.stderr)
	}
	return nil
}

// journeyMasters tests skep run, which gives a program the socket, with and without a hub.
func journeyMasters(s *stage) {
	c := s.startPair()
	const script = `test -S "$SKEP_SOCKET" && cat && exit 5`
	run := func(code int, stdout string, words []string, args ...string) error {
		o, err := s.run(strings.NewReader("input\n"), append([]string{s.skepPath(), "run"}, args...)...)
		if err != nil {
			return err
		}
		return o.checkOutcome(code, stdout, words...)
	}
	left := func() ([]string, error) { return filepath.Glob(filepath.Join(s.tmpDir(), "skep-run-*")) }
	s.runStep("a master finds its hub's socket", func() error {
		return run(5, "input\n", nil, "--state", c.state, "--", "/bin/sh", "-c", script)
	})
	s.runStep("a master without a hub gets a socket", func() error {
		return run(5, "input\n", nil, "--state", s.path("none"), "--", "/bin/sh", "-c", script)
	})
	s.runStep("no file of a run is left", func() error {
		found, err := left()
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("left: %v", found)
		}
		sockets, _ := filepath.Glob(s.path("hub", "hub", "run-*.sock"))
		if err == nil && len(sockets) > 0 {
			err = fmt.Errorf("left: %v", sockets)
		}
		return err
	})
	s.runStep("a master that dies from a signal", func() error {
		return run(128+9, "", nil, "--state", c.state, "--", "/bin/sh", "-c", "kill -9 $$")
	})
	s.runStep("a missing master", func() error {
		return run(127, "", []string{"./missing"}, "--state", c.state, "--", "./missing")
	})
	s.runStep("a missing directory of workers", func() error {
		return run(2, "", []string{"--modules"}, "--state", c.state, "--modules", s.path("none"), "--", "/bin/true")
	})
}

// hubKilled kills the hub, which has an agent of its own.
func hubKilled(s *stage, c *cluster) {
	marker := fmt.Sprint(1e8 + rand.Uint64N(8e8))
	var run *watch.Actor
	s.mustStep("a program runs on the hub's node", func() (err error) {
		run, err = s.startSleeper(c, "here", marker)
		return err
	})
	c.hub.Signal(syscall.SIGKILL)
	s.runStep("exec ends with code 3 when the hub is killed", func() error {
		code, err := run.WaitForExit(soon)
		if err == nil && code != 3 {
			err = fmt.Errorf("exit code %d, output %q", code, run.String())
		}
		return err
	})
	s.runStep("no process remains after the hub's death", func() error { return waitUntilGone(marker) })
}

// startSleeper starts a program that does not end, and waits until it runs.
func (s *stage) startSleeper(c *cluster, node, marker string) (*watch.Actor, error) {
	run, err := s.start("exec", nil, s.skepPath(), "exec", "--state", c.state, "--on", "node="+node, "--", "/bin/busybox", "sleep", marker)
	if err != nil {
		return nil, err
	}
	return run, watch.Poll(soon, func() error {
		if len(processesWith(marker)) < 2 { // one is skep exec
			return fmt.Errorf("no process has the argument %s", marker)
		}
		return nil
	})
}

func waitUntilGone(marker string) error {
	return watch.Poll(soon, func() error {
		if left := processesWith(marker); len(left) > 0 {
			return fmt.Errorf("processes %v have the argument %s", left, marker)
		}
		return nil
	})
}

// journeyKilledAgent kills an agent by SIGKILL.
func journeyKilledAgent(s *stage) {
	c := s.startPair()
	marker := fmt.Sprint(1e8 + rand.Uint64N(8e8))
	var run *watch.Actor
	s.mustStep("a program runs on the second node", func() (err error) {
		run, err = s.startSleeper(c, "second", marker)
		return err
	})
	c.second.Signal(syscall.SIGKILL)
	s.runStep("exec says that the node is away when the agent is killed", func() error {
		return watch.Poll(soon, func() error {
			if text := run.String(); !strings.Contains(text, "skep: node second is away") {
				return fmt.Errorf("output %q", text)
			}
			return nil
		})
	})
	s.runStep("only exec remains", func() error {
		return watch.Poll(soon, func() error {
			if left := processesWith(marker); len(left) != 1 {
				return fmt.Errorf("processes %v have the argument %s", left, marker)
			}
			return nil
		})
	})
	s.runStep("the node is no longer up", func() error { return c.waitForNodes("here") })
	s.runStep("the agent comes back as itself, without a token", func() (err error) {
		if c.second, err = c.join("second", ""); err != nil {
			return err
		}
		if err := c.waitForNodes("here", "second"); err != nil {
			return err
		}
		if list, err := c.listNodes(); err != nil || len(list) != 2 {
			return fmt.Errorf("%+v %v", list, err)
		}
		code, err := run.WaitForExit(soon)
		if err == nil && (code != 3 || !strings.Contains(run.String(), "started again on node second")) {
			err = fmt.Errorf("exec ends with %d, output %q", code, run.String())
		}
		if err != nil {
			return err
		}
		return c.wantExec("node=second", 7, "hello, world\n", s.programPath("glibc/hello"))
	})
	hubKilled(s, c)
}

// journeyHubRestart kills the hub and restarts it with its state.
func journeyHubRestart(s *stage) {
	c := s.startPair()
	c.hub.KillAlone()
	s.mustStep("the hub comes back", func() error {
		_, err := c.startHub(c.address)
		return err
	})
	s.runStep("its agents come back by themselves", func() error { return c.waitForNodes("here", "second") })
	s.runStep("and work", func() error {
		return c.wantExec("node=second", 7, "hello, world\n", s.programPath("glibc/hello"))
	})
	s.runStep("a second hub on the same state is refused", func() error {
		o, err := s.run(nil, s.skepPath(), "up", "--state", c.state, "--listen", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return o.checkOutcome(1, any, c.state)
	})
	s.runStep("a second agent on the same state is refused", func() error {
		argv, _ := c.agentCommand("--state", c.stateOf("second"))
		o, err := s.run(nil, argv...)
		if err != nil {
			return err
		}
		return o.checkOutcome(1, any, "another agent uses")
	})
}

// journeyPrograms checks that a file which can't be run gives one clear error.
func journeyPrograms(s *stage) {
	c := s.startPair()
	text := s.path("text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\necho no\n"), 0o755); err != nil {
		panic(err)
	}
	hello, err := os.ReadFile(s.programPath("glibc/hello"))
	if err != nil {
		panic(err)
	}
	corrupt := s.path("corrupt")
	copy(hello[32:40], "\xff\xff\xff\xff\xff\xff\xff\x7f") // the offset of the program headers
	if err := os.WriteFile(corrupt, hello, 0o755); err != nil {
		panic(err)
	}
	short := s.path("short")
	if err := os.WriteFile(short, hello[:40], 0o755); err != nil {
		panic(err)
	}
	bad := func(what, program string, words ...string) {
		for _, on := range []string{"here", "second"} {
			s.runStep(what+" on "+on, func() error {
				o, err := c.exec("", "node="+on, program)
				if err != nil {
					return err
				}
				if o.code != 1 && o.code != 126 && o.code != 127 {
					return fmt.Errorf("it should not run: %v", o)
				}
				return o.checkOutcome(o.code, "", words...)
			})
		}
	}
	bad("a missing program", s.path("missing"), "missing")
	bad("a dynamic program", "/bin/true", "static")
	bad("a script", text, "ELF")
	bad("a corrupt program", corrupt, "corrupt")
	bad("a program cut short", short, "short")
	bad("a directory", s.Dir, s.Dir)
	s.runStep("valid programs still run", func() error {
		return c.wantExec("node=second", 7, "hello, world\n", s.programPath("glibc/hello"))
	})
}
