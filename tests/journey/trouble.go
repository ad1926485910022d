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

// Time limits: those that agents and hub promise, and the slack for two busy cores.
const (
	broken = 3 * time.Second
	silent = 15 * time.Second
	lease  = 5 * time.Second
	margin = time.Second
)

func listTroubles() []journey {
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
	return append(list, journey{"service", true, journeyService}, journey{"logon", true, journeyLogon})
}

// startLongPlay starts a run that lasts until checkEnd: however late the fault is caused, there
// are calls to lose.
func (c *cluster) startLongPlay(milliseconds int) *play {
	var p *play
	c.s.mustStep("both nodes are at work", func() (err error) {
		if p, err = c.startPlay(24, milliseconds, c.s.path("over")); err != nil {
			return err
		}
		if err = p.waitForWork("here", "second"); err != nil {
			err = fmt.Errorf("%w%s", err, p.eventText())
		}
		return err
	})
	return p
}

// signalWorkers sends a signal to all busy workers of a node.
func (c *cluster) signalWorkers(node string, sig syscall.Signal) error {
	return watch.Poll(soon, func() error {
		hit := 0
		for _, pid := range c.listWorkers(node) {
			if isWorker(pid) && syscall.Kill(pid, sig) == nil {
				hit++
			}
		}
		if hit == 0 {
			return fmt.Errorf("node %s has no worker: %v", node, describeProcesses(c.listWorkers(node)))
		}
		return nil
	})
}

func workerKilled(s *stage) {
	c := s.startPair()
	p := c.startLongPlay(300)
	for _, node := range []string{"second", "here"} {
		s.runStep("a worker of node "+node+" dies and its call is run again within 3 seconds", func() error {
			begin := time.Now()
			if err := c.signalWorkers(node, syscall.SIGKILL); err != nil {
				return err
			}
			return p.waitForRequeue(node, begin, broken)
		})
	}
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("here", "second") })
	s.runStep("no worker remains", func() error { return c.waitUntilIdle(soon) })
}

func agentKilled(s *stage) {
	c := s.startPair()
	p := c.startLongPlay(300)
	begin := time.Now()
	c.second.Signal(syscall.SIGKILL)
	s.runStep("the agent dies and its calls are run again within 3 seconds", func() error { return p.waitForRequeue("second", begin, broken) })
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("second") })
	s.runStep("no worker remains", func() error { return c.waitUntilIdle(soon) })
}

func workerStopped(s *stage) {
	c := s.startPair()
	p := c.startLongPlay(300)
	begin := time.Now()
	s.runStep("workers of both nodes stop", func() error {
		if err := c.signalWorkers("second", syscall.SIGSTOP); err != nil {
			return err
		}
		return c.signalWorkers("here", syscall.SIGSTOP)
	})
	for _, node := range []string{"second", "here"} {
		s.runStep("the call on node "+node+" is run again within 15 seconds", func() error {
			return p.waitForRequeue(node, begin, time.Until(begin.Add(silent)))
		})
	}
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("here", "second") })
	s.runStep("no worker remains", func() error { return c.waitUntilIdle(soon) })
}

func agentStopped(s *stage) {
	c := s.startPair()
	p := c.startLongPlay(300)
	begin := time.Now()
	c.second.Signal(syscall.SIGSTOP)
	s.runStep("the agent stops and its calls are run again within 15 seconds", func() error {
		return p.waitForRequeue("second", begin, silent)
	})
	s.runStep("the answers are right, and the run says what was run again", func() error { return p.checkEnd("second") })
	s.runStep("a continued agent is a node again", func() error {
		c.second.Signal(syscall.SIGCONT)
		return c.waitForNodes("here", "second")
	})
	s.runStep("no worker remains", func() error { return c.waitUntilIdle(soon) })
}

func masterKilled(s *stage) {
	c := s.startPair()
	p := c.startLongPlay(1000)
	s.runStep("its calls have left data on both nodes", func() error {
		return watch.Poll(soon, func() error {
			here, second := leftIn(c.state), leftIn(s.path("second"))
			if here == nil || second == nil {
				return fmt.Errorf("here: %v, second: %v", here, second)
			}
			return nil
		})
	})
	s.runStep("the master dies, and the run ends", func() error {
		children := childrenOf(p.run.Cmd.Process.Pid)
		if len(children) != 1 {
			return fmt.Errorf("the run has the children %v", children)
		}
		syscall.Kill(children[0], syscall.SIGKILL)
		code, err := p.run.WaitForExit(soon)
		if err == nil && code != 128+9 {
			err = fmt.Errorf("exit code %d", code)
		}
		return err
	})
	s.runStep("the lease ends: no worker remains after 5 seconds", func() error { return c.waitUntilIdle(lease + margin) })
	s.runStep("no data of the master remain", func() error { return watch.Poll(lease, c.checkEmpty) })
	s.runStep("the nodes are there for the next run", func() error {
		next, err := c.startPlay(4, 1, "")
		if err != nil {
			return err
		}
		return next.checkEnd()
	})
	p.stream.Close()
}

// checkEmpty checks that calls have left no files in the directories of hub and agents.
func (c *cluster) checkEmpty() error {
	return errors.Join(leftIn(c.state), leftIn(c.s.path("second")))
}

// leftIn returns an error if there are files created by work.c.
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

// badWorkers tests programs that can't be workers, and a worker that exits.
func badWorkers(s *stage) {
	c := s.startPair()
	wrong := func(name string, words []string, args ...string) {
		s.runStep(name, func() error {
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
	wrong("a module that is not a program", []string{"text.rex"}, "bind", "text")
	wrong("a program that is not a module", []string{"plain.rex", "skep gen"}, "bind", "plain")
	s.runStep("an interface with an error", func() error {
		text := "Module m;\nDefine f(IN int n,\n\tIN flot x[n]) Calls \"C\" f(n, x);\n"
		if err := os.WriteFile(s.path("m.idl"), []byte(text), 0o600); err != nil {
			return err
		}
		o, err := s.run(nil, s.skepPath(), "gen", "m.idl", "-o", s.Dir)
		if err == nil && (o.code != 1 || !strings.Contains(o.stderr, "m.idl:3:2: ")) {
			err = fmt.Errorf("wanted exit code 1 and m.idl:3:2: %v", o)
		}
		return err
	})
	s.runStep("good calls go on after all that", func() error {
		p, err := c.startPlay(4, 1, "")
		if err != nil {
			return err
		}
		return p.checkEnd()
	})
	s.runStep("no worker remains", func() error { return c.waitUntilIdle(soon) })
}
