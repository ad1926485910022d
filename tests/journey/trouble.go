// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"skep/tests/watch"
)

// What the agents and the hub promise, and what two busy cores may add to it.
const (
	broken = 3 * time.Second
	silent = 15 * time.Second
	lease  = 5 * time.Second
	margin = time.Second
)

func troubles() []journey {
	var list []journey
	for _, wine := range []bool{false, true} {
		list = append(list,
			journey{"worker killed", wine, workerKilled},
			journey{"agent killed", wine, agentKilled},
			journey{"worker stopped", wine, workerStopped},
			journey{"agent stopped", wine, agentStopped},
			journey{"master killed", wine, masterKilled},
			journey{"bad workers", wine, badWorkers})
	}
	return list
}

// begins starts a run that is long enough for the trouble to come.
func (c *cluster) begins(calls, milliseconds int) *play {
	var p *play
	c.s.must("both nodes are at work", func() (err error) {
		if p, err = c.play(calls, milliseconds); err != nil {
			return err
		}
		if err = p.under("here", "second"); err != nil {
			err = fmt.Errorf("%w%s", err, p.story())
		}
		return err
	})
	return p
}

// strikes gives a signal to all workers of a node that are at work now.
func (c *cluster) strikes(node string, sig syscall.Signal) error {
	return watch.Poll(soon, func() error {
		hit := 0
		for _, pid := range c.workers(node) {
			if isWorker(pid) && syscall.Kill(pid, sig) == nil {
				hit++
			}
		}
		if hit == 0 {
			return fmt.Errorf("node %s has no worker: %v", node, describe(c.workers(node)))
		}
		return nil
	})
}

func workerKilled(s *stage) {
	c := s.whole()
	p := c.begins(24, 300)
	for _, node := range []string{"second", "here"} {
		s.step("a worker of node "+node+" dies and its call is run again within 3 seconds", func() error {
			begin := time.Now()
			if err := c.strikes(node, syscall.SIGKILL); err != nil {
				return err
			}
			return p.again(node, begin, broken)
		})
	}
	s.step("the answers are right, and the run says what was run again", func() error { return p.right("here", "second") })
	s.step("no worker remains", func() error { return c.idle(soon) })
}

func agentKilled(s *stage) {
	c := s.whole()
	p := c.begins(24, 300)
	begin := time.Now()
	c.second.signal(syscall.SIGKILL)
	s.step("the agent dies and its calls are run again within 3 seconds", func() error { return p.again("second", begin, broken) })
	s.step("the answers are right, and the run says what was run again", func() error { return p.right("second") })
	s.step("no worker remains", func() error { return c.idle(soon) })
}

func workerStopped(s *stage) {
	c := s.whole()
	p := c.begins(40, 300)
	begin := time.Now()
	s.step("workers of both nodes stop", func() error {
		if err := c.strikes("second", syscall.SIGSTOP); err != nil {
			return err
		}
		return c.strikes("here", syscall.SIGSTOP)
	})
	for _, node := range []string{"second", "here"} {
		s.step("the call on node "+node+" is run again within 15 seconds", func() error {
			return p.again(node, begin, time.Until(begin.Add(silent)))
		})
	}
	s.step("the answers are right, and the run says what was run again", func() error { return p.right("here", "second") })
	s.step("no worker remains", func() error { return c.idle(soon) })
}

func agentStopped(s *stage) {
	c := s.whole()
	p := c.begins(120, 300)
	begin := time.Now()
	c.second.signal(syscall.SIGSTOP)
	s.step("the agent stops and its calls are run again within 15 seconds", func() error {
		return p.again("second", begin, silent)
	})
	s.step("the answers are right, and the run says what was run again", func() error { return p.right("second") })
	s.step("a continued agent is a node again", func() error {
		c.second.signal(syscall.SIGCONT)
		return c.sees("here", "second")
	})
	s.step("no worker remains", func() error { return c.idle(soon) })
}

func masterKilled(s *stage) {
	c := s.whole()
	p := c.begins(40, 1000)
	s.step("its calls have left data on both nodes", func() error {
		return watch.Poll(soon, func() error {
			here, second := leftIn(c.state), leftIn(s.path("second"))
			if here == nil || second == nil {
				return fmt.Errorf("here: %v, second: %v", here, second)
			}
			return nil
		})
	})
	s.step("the master dies, and the run ends", func() error {
		children := childrenOf(p.run.Cmd.Process.Pid)
		if len(children) != 1 {
			return fmt.Errorf("the run has the children %v", children)
		}
		syscall.Kill(children[0], syscall.SIGKILL)
		code, err := p.run.ends(soon)
		if err == nil && code != 128+9 {
			err = fmt.Errorf("exit code %d", code)
		}
		return err
	})
	s.step("the lease ends: no worker remains after 5 seconds", func() error { return c.idle(lease + margin) })
	s.step("no data of the master remain", func() error { return watch.Poll(lease, c.empty) })
	s.step("the nodes are there for the next run", func() error {
		next, err := c.play(4, 1)
		if err != nil {
			return err
		}
		return next.right()
	})
	p.stream.Close()
}

// empty looks for what calls have left in the directories of hub and agents.
func (c *cluster) empty() error {
	return errors.Join(leftIn(c.state), leftIn(c.s.path("second")))
}

// leftIn complains about files that work.c has made.
func leftIn(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err == nil && strings.HasPrefix(d.Name(), "left-"):
			return fmt.Errorf("%s is left", path)
		}
		return err
	})
}

// badWorkers: programs that can't be workers, and one that does not stay.
func badWorkers(s *stage) {
	c := s.whole()
	wrong := func(name string, words []string, args ...string) {
		s.step(name, func() error {
			o, err := s.run(nil, c.masterLine(args...)...)
			if err != nil {
				return err
			}
			if o.code != 1 || o.stdout != "" {
				return fmt.Errorf("wanted exit code 1: %v", o)
			}
			for _, word := range words {
				if !strings.Contains(o.stderr, word) {
					return fmt.Errorf("stderr lacks %q: %v", word, o)
				}
			}
			return nil
		})
	}
	wrong("a worker that exits", []string{"exit", "7"}, "leave", "7")
	wrong("a module that is missing", []string{"missing.rex"}, "bind", "missing")
	wrong("a module that is a dynamic program", []string{"dynamic.rex", "static"}, "bind", "dynamic")
	wrong("a module that is cut", []string{"cut.rex"}, "bind", "cut")
	wrong("a module that is no program", []string{"text.rex"}, "bind", "text")
	wrong("a program that is no module", []string{"plain.rex", "skep gen"}, "bind", "plain")
	s.step("an interface with an error", func() error {
		text := "Module m;\nDefine f(IN int n,\n\tIN flot x[n]) Calls \"C\" f(n, x);\n"
		if err := os.WriteFile(s.path("m.idl"), []byte(text), 0o600); err != nil {
			return err
		}
		o, err := s.run(nil, s.skep(), "gen", "m.idl", "-o", s.dir)
		if err == nil && (o.code != 1 || !strings.Contains(o.stderr, "m.idl:3:2: ")) {
			err = fmt.Errorf("wanted exit code 1 and m.idl:3:2: %v", o)
		}
		return err
	})
	s.step("good calls go on after all that", func() error {
		p, err := c.play(4, 1)
		if err != nil {
			return err
		}
		return p.right()
	})
	s.step("no worker remains", func() error { return c.idle(soon) })
}
