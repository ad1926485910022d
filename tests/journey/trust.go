// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
)

// createToken gets a token from the hub.
func (c *cluster) createToken(args ...string) (string, error) {
	o, err := c.s.run(nil, append([]string{c.s.skepPath(), "token", "--state", c.state}, args...)...)
	if err != nil {
		return "", err
	}
	words := regexp.MustCompile(joinLine).FindStringSubmatch(o.stdout)
	if o.code != 0 || words == nil || words[2] != c.address {
		return "", fmt.Errorf("no join line: %v", o)
	}
	return words[1], nil
}

// checkRefused joins with a token that the hub must refuse.
func (c *cluster) checkRefused(name, token, why string) error {
	argv, _ := c.agentCommand(c.address, "--state", c.stateOf(name), "--name", name, "--token", token)
	o, err := c.s.run(nil, argv...)
	if err != nil {
		return err
	}
	return o.checkOutcome(4, any, why)
}

func journeyTokens(s *stage) {
	c := s.startPair()
	var twice string
	s.mustStep("a token for two", func() (err error) {
		twice, err = c.createToken("--uses", "2")
		return err
	})
	for _, name := range []string{"third", "fourth"} {
		s.runStep(name+" joins with it", func() error {
			a, err := c.join(name, twice)
			if err == nil {
				_, err = a.WaitForLine(context.Background(), "joined", soon)
			}
			return err
		})
	}
	s.runStep("all are listed", func() error { return c.waitForNodes("fourth", "here", "second", "third") })
	s.runStep("a used-up token", func() error { return c.checkRefused("fifth", twice, "used up") })
	s.runStep("an expired token", func() error {
		token, err := c.createToken("--expires", "1ms")
		if err != nil {
			return err
		}
		return c.checkRefused("fifth", token, "expired")
	})
	s.runStep("a token whose secret is wrong", func() error {
		token, err := c.createToken()
		if err != nil {
			return err
		}
		other := byte('a')
		at := len("skep1.") + 20 // within the secret
		if token[at] == other {
			other = 'b'
		}
		return c.checkRefused("fifth", token[:at]+string(other)+token[at+1:], "token")
	})
	s.runStep("a token of another hub", func() error {
		other := &cluster{s: s, state: s.path("other")}
		token, err := other.startHub("127.0.0.1:0", "--no-agent")
		if err != nil {
			return err
		}
		return c.checkRefused("fifth", token, "hub")
	})
	s.runStep("no node joined with a refused token", func() error { return c.waitForNodes("fourth", "here", "second", "third") })
	s.runStep("wrong numbers", func() error {
		for _, args := range [][]string{{"--uses", "0"}, {"--uses", "-1"}, {"--expires", "soon"}, {"--expires", "-1h"}} {
			o, err := s.run(nil, append([]string{s.skepPath(), "token", "--state", c.state}, args...)...)
			if err != nil {
				return err
			}
			if err := o.checkOutcome(2, "", args[0]); err != nil {
				return err
			}
		}
		return nil
	})
	s.runStep("no other user can read secrets", func() error { return checkPrivate(s.Dir) })
}

// checkPrivate returns an error if other users can read a file of a state directory.
func checkPrivate(dir string) error {
	for _, state := range []string{"hub", "second"} {
		info, err := os.Stat(dir + "/" + state)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s/%s is open to others: %v", dir, state, info.Mode())
		}
	}
	return nil
}

// journeyCertificates tests an agent whose hub was replaced by another at the same address.
func journeyCertificates(s *stage) {
	c := s.startPair()
	s.mustStep("the agent and its hub stop", func() error {
		if err := s.stopActor(c.second); err != nil {
			return err
		}
		return s.stopActor(c.hub)
	})
	other := &cluster{s: s, state: s.path("other")}
	s.mustStep("another hub takes the address", func() error {
		_, err := other.startHub(c.address)
		return err
	})
	s.runStep("the agent reports that it is another hub, and ends", func() error {
		argv, _ := c.agentCommand(c.address, "--state", c.stateOf("second"))
		o, err := s.run(nil, argv...)
		if err != nil {
			return err
		}
		return o.checkOutcome(4, any, "hub")
	})
	s.runStep("the other hub does not list the node", func() error { return other.waitForNodes("here") })
}

// journeyRevisions tests that hub and agents one revision apart work together, and that a
// peer further apart gets an error, and its user a message.
func journeyRevisions(s *stage) {
	c := s.startPair()
	s.runStep("an agent two revisions behind may not join", func() error {
		token, err := c.createToken()
		if err != nil {
			return err
		}
		o, err := s.run(nil, s.o.old, "join", c.address, "--state", s.path("old"), "--token", token)
		if err != nil {
			return err
		}
		return o.checkOutcome(4, any, "revision 3", "revision 1", "update")
	})
	s.mustStep("the agent stops", func() error { return s.stopActor(c.second) })
	s.runStep("an agent that has joined and is then put back by two revisions", func() error {
		o, err := s.run(nil, s.o.old, "join", "--state", s.path("second"))
		if err != nil {
			return err
		}
		return o.checkOutcome(4, any, "revision 3", "revision 1", "update")
	})
	s.runStep("the node that was put back is not listed as up", func() error { return c.waitForNodes("here") })
	s.mustStep("an agent that is put back by one revision works", func() (err error) {
		if c.second, err = s.start("former", nil, s.o.former, "join", "--state", s.path("second")); err != nil {
			return err
		}
		return c.waitForNodes("here", "second")
	})
	runsOn := func(name string) {
		s.runStep("a program runs on it "+name, func() error {
			return c.wantExec("node=second", 7, "hello, world\n", s.programPath("glibc/hello"))
		})
	}
	runsOn("under a newer hub")
	s.mustStep("the agent is updated, and then the hub put back", func() (err error) {
		if err := s.stopActor(c.second); err != nil {
			return err
		}
		if c.second, err = c.join("second", ""); err != nil {
			return err
		}
		if err := c.waitForNodes("here", "second"); err != nil {
			return err
		}
		if err := s.stopActor(c.hub); err != nil {
			return err
		}
		if c.hub, err = s.start("former hub", nil, s.o.former, "up", "--state", c.state, "--listen", c.address, "--name", "here"); err != nil {
			return err
		}
		return c.waitForNodes("here", "second")
	})
	runsOn("under an older hub")
}
