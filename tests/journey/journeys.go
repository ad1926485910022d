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
	"time"

	"skep/internal/load"
	"skep/tests/watch"
)

func journeys() []journey {
	return []journey{
		{"usage", false, usage},
		{"cluster", false, whole},
		{"cluster", true, whole},
		{"tokens", false, tokens},
		{"certificates", false, certificates},
		{"revisions", false, revisions},
		{"run", false, masters},
		{"killed", false, killed},
		{"killed", true, killed},
		{"restart", false, restart},
		{"restart", true, restart},
		{"programs", false, programs},
		{"programs", true, programs},
	}
}

// usage: what needs no hub, and what misses one.
func usage(s *stage) {
	wrong := func(code int, words []string, args ...string) {
		s.step("skep "+strings.Join(args, " "), func() error {
			o, err := s.run(nil, append([]string{s.skep()}, args...)...)
			if err != nil {
				return err
			}
			return o.want(code, "", words...)
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
	wrong(3, []string{"skep up"}, "exec", "--state", "nowhere", "--", s.program("glibc/hello"))
	wrong(3, []string{"127.0.0.1:1"}, "join", "127.0.0.1:1", "--state", "alone", "--token", someToken)
	wrong(2, []string{"token"}, "join", "127.0.0.1:1", "--state", "alone", "--token", "nonsense")
	wrong(2, []string{"token"}, "join", "127.0.0.1:1", "--state", "alone")
	s.step("skep doctor", func() error {
		o, err := s.run(nil, s.skep(), "doctor", "--state", "fresh")
		if err != nil {
			return err
		}
		return o.want(0, any)
	})
	s.step("skep help", func() error {
		o, err := s.run(nil, s.skep(), "help")
		if err == nil && !strings.Contains(o.stdout, "skep exec") {
			err = fmt.Errorf("%v", o)
		}
		return err
	})
}

// A token of the right form, of no hub: 56 bytes of zeros.
var someToken = "skep1." + strings.Repeat("a", 90)

// whole: from nothing to programs that run on two nodes.
func whole(s *stage) {
	c := s.whole()
	s.step("nodes prints the properties of each node", func() error { return tellsNodes(c) })
	s.step("nodes prints a table", func() error {
		o, err := s.run(nil, s.skep(), "nodes", "--state", c.state)
		if err != nil {
			return err
		}
		if ok, _ := regexp.MatchString(`(?m)^NAME +OS +SUBSTRATE +CONFINED +CPUS +FREE +STATE +LAST SEEN +SYSTEM\nhere +linux `, o.stdout); !ok {
			return fmt.Errorf("%v", o)
		}
		return nil
	})
	hello := s.program("glibc/hello")
	for _, name := range []string{"here", "second"} {
		s.step("hello on "+name, func() error {
			return c.wantExec("node="+name, 7, "hello, world\n", hello)
		})
		s.step("exit codes on "+name, func() error {
			if err := c.wantExec("node="+name, 0, any, s.program("musl/exits"), "code", "0"); err != nil {
				return err
			}
			if err := c.wantExec("node="+name, 255, any, s.program("musl/exits"), "code", "255"); err != nil {
				return err
			}
			return c.wantExec("node="+name, 128+15, any, s.program("musl/exits"), "signal", "15")
		})
		s.step("input and output stream through "+name, func() error { return streams(c, "node="+name) })
		s.step("arguments reach "+name, func() error {
			return c.wantExec("node="+name, 0, "a b| \"c\\ |ä|\n", "/bin/busybox", "printf", "%s|%s|%s|\n", "a b", ` "c\ `, "ä")
		})
	}
	bounded(c)
	selections(c, hello)
	s.step("the second agent stops when asked to", func() error { return stopSecond(c) })
	s.step("the stopped node is no longer up", func() error { return c.sees("here") })
	s.step("the hub stops when asked to", func() error { return s.down(c.hub) })
}

// bounded: what a program on the hub's own node reaches and may use.
func bounded(c *cluster) {
	s := c.s
	s.step("a program on the hub's node sees nothing of the hub", func() error {
		if _, err := os.Stat(filepath.Join(c.state, "hub")); err != nil {
			return err // else nothing was to be seen
		}
		o, err := c.exec("", "node=here", "/bin/busybox", "ls", "-R", c.state)
		if seen := regexp.MustCompile(`(?m)^(hub|node|logs|blobs)$`).FindString(o.stdout); err == nil && seen != "" {
			err = fmt.Errorf("%s of %v", seen, o)
		}
		return err
	})
	s.step("--memory is obeyed", func() error {
		o, err := s.run(nil, s.skep(), "exec", "--state", c.state, "--on", "node=here", "--memory", "50M", "--",
			"/bin/busybox", "sh", "-c", "a=0123456789abcdef; while :; do a=$a$a; done")
		if err != nil {
			return err
		}
		return o.want(137, "", "of memory, more than the 50 MiB allowed; ask for more with --memory")
	})
	s.step("--slots beside a hub is refused", func() error {
		o, err := s.run(nil, s.skep(), "run", "--state", c.state, "--slots", "1", "--", "/bin/true")
		if err != nil {
			return err
		}
		return o.want(2, "", "a hub runs here: --slots of 'skep up'")
	})
	s.step("logs are shown", func() error {
		o, err := s.run(nil, s.skep(), "logs", "--state", c.state, "--on", "node=here")
		if err != nil {
			return err
		}
		return o.want(0, "")
	})
}

// selections: which nodes run a program that prints a line and ends with 7.
func selections(c *cluster, hello string) {
	s := c.s
	s.step("hello on any", func() error { return c.wantExec("any", 7, "hello, world\n", hello) })
	s.step("hello on all, each line with its node", func() error {
		o, err := c.exec("", "all", hello)
		if err != nil {
			return err
		}
		for _, name := range []string{"here", "second"} {
			if strings.Count(o.stdout, name+": hello, world\n") != 1 {
				return fmt.Errorf("%s is not there once: %v", name, o)
			}
		}
		return o.want(7, any)
	})
	s.step("a selector that matches nothing", func() error {
		o, err := c.exec("", "node=nobody", hello)
		if err != nil {
			return err
		}
		return o.want(3, "", "node=nobody")
	})
	s.step("a wrong selector", func() error {
		o, err := c.exec("", "colour=red", hello)
		if err != nil {
			return err
		}
		return o.want(2, "", "colour=red")
	})
}

// stopSecond: Wine turns no signal into a console event, so there it is killed.
func stopSecond(c *cluster) error {
	if c.wine {
		c.second.kill()
		return nil
	}
	return c.s.down(c.second)
}

func tellsNodes(c *cluster) error {
	list, err := c.nodes()
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

// streams sends three megabytes through a program that gives them back.
func streams(c *cluster, on string) error {
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

// masters: skep run gives a program the socket, with a hub and without.
func masters(s *stage) {
	c := s.whole()
	const script = `test -S "$SKEP_SOCKET" && cat && exit 5`
	run := func(code int, stdout string, words []string, args ...string) error {
		o, err := s.run(strings.NewReader("input\n"), append([]string{s.skep(), "run"}, args...)...)
		if err != nil {
			return err
		}
		return o.want(code, stdout, words...)
	}
	left := func() ([]string, error) { return filepath.Glob(filepath.Join(s.tmp(), "skep-run-*")) }
	s.step("a master finds its hub's socket", func() error {
		return run(5, "input\n", nil, "--state", c.state, "--", "/bin/sh", "-c", script)
	})
	s.step("a master without a hub gets a socket", func() error {
		return run(5, "input\n", nil, "--state", s.path("none"), "--", "/bin/sh", "-c", script)
	})
	s.step("no file of a run is left", func() error {
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
	s.step("a master that dies from a signal", func() error {
		return run(128+9, "", nil, "--state", c.state, "--", "/bin/sh", "-c", "kill -9 $$")
	})
	s.step("a missing master", func() error {
		return run(127, "", []string{"./missing"}, "--state", c.state, "--", "./missing")
	})
	s.step("a missing directory of workers", func() error {
		return run(2, "", []string{"--modules"}, "--state", c.state, "--modules", s.path("none"), "--", "/bin/true")
	})
}

// hubKilled: so does the hub, with an agent inside.
func hubKilled(s *stage, c *cluster) {
	marker := fmt.Sprint(1e8 + rand.Uint64N(8e8))
	var run *actor
	s.must("a program runs on the hub's node", func() (err error) {
		run, err = s.sleeper(c, "here", marker)
		return err
	})
	c.hub.signal(syscall.SIGKILL)
	s.step("the program's user is told that the hub died", func() error {
		code, err := run.ends(soon)
		if err == nil && code != 3 {
			err = fmt.Errorf("exit code %d, output %q", code, run.String())
		}
		return err
	})
	s.step("no process remains after the hub's death", func() error { return gone(marker) })
}

// sleeper starts a program that does not end, and waits until it runs.
func (s *stage) sleeper(c *cluster, node, marker string) (*actor, error) {
	run, err := s.start("exec", nil, s.skep(), "exec", "--state", c.state, "--on", "node="+node, "--", "/bin/busybox", "sleep", marker)
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

func gone(marker string) error {
	return watch.Poll(soon, func() error {
		if left := processesWith(marker); len(left) > 0 {
			return fmt.Errorf("processes %v have the argument %s", left, marker)
		}
		return nil
	})
}

// killed: an agent dies by SIGKILL.
func killed(s *stage) {
	c := s.whole()
	marker := fmt.Sprint(1e8 + rand.Uint64N(8e8))
	var run *actor
	s.must("a program runs on the second node", func() (err error) {
		run, err = s.sleeper(c, "second", marker)
		return err
	})
	late := load.NewTimer(3*time.Second, load.Scale)
	defer late.Stop()
	c.second.signal(syscall.SIGKILL)
	s.step("the program's user is told that the agent died", func() error {
		code, err := run.ends(soon)
		if err == nil && (code != 3 || !strings.Contains(run.String(), "second")) {
			err = fmt.Errorf("exit code %d, output %q", code, run.String())
		}
		return err
	})
	s.step("the user is told within 3 seconds", func() error {
		select {
		case <-late.C:
			return fmt.Errorf("it took longer, by the time of an idle computer")
		default:
			return nil
		}
	})
	s.step("no process remains", func() error { return gone(marker) })
	s.step("the node is no longer up", func() error { return c.sees("here") })
	s.step("the agent comes back as itself, without a token", func() (err error) {
		if c.second, err = c.join("second", ""); err != nil {
			return err
		}
		if err := c.sees("here", "second"); err != nil {
			return err
		}
		if list, err := c.nodes(); err != nil || len(list) != 2 {
			return fmt.Errorf("%+v %v", list, err)
		}
		return c.wantExec("node=second", 7, "hello, world\n", s.program("glibc/hello"))
	})
	hubKilled(s, c)
}

// restart: the hub dies and comes back with what it knew.
func restart(s *stage) {
	c := s.whole()
	c.hub.kill()
	s.must("the hub comes back", func() error {
		_, err := c.up(c.address)
		return err
	})
	s.step("its agents come back by themselves", func() error { return c.sees("here", "second") })
	s.step("and work", func() error {
		return c.wantExec("node=second", 7, "hello, world\n", s.program("glibc/hello"))
	})
	s.step("a second hub on the same state is refused", func() error {
		o, err := s.run(nil, s.skep(), "up", "--state", c.state, "--listen", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return o.want(1, any, c.state)
	})
	s.step("a second agent on the same state is refused", func() error {
		argv, _ := c.agent("--state", c.stateOf("second"))
		o, err := s.run(nil, argv...)
		if err != nil {
			return err
		}
		return o.want(1, any, "another agent uses")
	})
}

// programs: what can't be run is one clear error, from the command line.
func programs(s *stage) {
	c := s.whole()
	text := s.path("text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\necho no\n"), 0o755); err != nil {
		panic(err)
	}
	hello, err := os.ReadFile(s.program("glibc/hello"))
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
			s.step(what+" on "+on, func() error {
				o, err := c.exec("", "node="+on, program)
				if err != nil {
					return err
				}
				if o.code != 1 && o.code != 126 && o.code != 127 {
					return fmt.Errorf("it should not run: %v", o)
				}
				return o.want(o.code, "", words...)
			})
		}
	}
	bad("a missing program", s.path("missing"), "missing")
	bad("a dynamic program", "/bin/true", "static")
	bad("a script", text, "ELF")
	bad("a corrupt program", corrupt, "corrupt")
	bad("a program cut short", short, "short")
	bad("a directory", s.dir, s.dir)
	s.step("valid programs still run", func() error {
		return c.wantExec("node=second", 7, "hello, world\n", s.program("glibc/hello"))
	})
}
