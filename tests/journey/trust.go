// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"strings"
)

// token asks the hub for one.
func (c *cluster) token(args ...string) (string, error) {
	o, err := c.s.run(nil, append([]string{c.s.skep(), "token", "--state", c.state}, args...)...)
	if err != nil {
		return "", err
	}
	_, token, found := strings.Cut(strings.TrimSpace(o.stdout), "--token ")
	if o.code != 0 || !found || !strings.Contains(o.stdout, c.address) {
		return "", fmt.Errorf("no join line: %v", o)
	}
	return token, nil
}

// refused joins with a token that the hub must not take.
func (c *cluster) refused(name, token, why string) error {
	argv, _ := c.agent(c.address, "--state", c.stateOf(name), "--name", name, "--token", token)
	o, err := c.s.run(nil, argv...)
	if err != nil {
		return err
	}
	return o.want(4, any, why)
}

func tokens(s *stage) {
	c := s.whole()
	var twice string
	s.must("a token for two", func() (err error) {
		twice, err = c.token("--uses", "2")
		return err
	})
	for _, name := range []string{"third", "fourth"} {
		s.step(name+" joins with it", func() error {
			a, err := c.join(name, twice)
			if err == nil {
				_, err = a.says("joined", soon)
			}
			return err
		})
	}
	s.step("all are listed", func() error { return c.sees("fourth", "here", "second", "third") })
	s.step("a used-up token", func() error { return c.refused("fifth", twice, "used up") })
	s.step("an expired token", func() error {
		token, err := c.token("--expires", "1ms")
		if err != nil {
			return err
		}
		return c.refused("fifth", token, "expired")
	})
	s.step("a token whose secret is wrong", func() error {
		token, err := c.token()
		if err != nil {
			return err
		}
		other := byte('a')
		at := len("skep1.") + 20 // within the secret
		if token[at] == other {
			other = 'b'
		}
		return c.refused("fifth", token[:at]+string(other)+token[at+1:], "token")
	})
	s.step("a token of another hub", func() error {
		other := &cluster{s: s, state: s.path("other")}
		token, err := other.up("127.0.0.1:0", "--no-agent")
		if err != nil {
			return err
		}
		return c.refused("fifth", token, "hub")
	})
	s.step("no node joined with a refused token", func() error { return c.sees("fourth", "here", "second", "third") })
	s.step("wrong numbers", func() error {
		for _, args := range [][]string{{"--uses", "0"}, {"--uses", "-1"}, {"--expires", "soon"}, {"--expires", "-1h"}} {
			o, err := s.run(nil, append([]string{s.skep(), "token", "--state", c.state}, args...)...)
			if err != nil {
				return err
			}
			if err := o.want(2, "", args[0]); err != nil {
				return err
			}
		}
		return nil
	})
	s.step("no other user can read secrets", func() error { return private(s.dir) })
}

// private refuses files below a state that others may read.
func private(dir string) error {
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

// certificates: another hub answers at the address that an agent knows.
func certificates(s *stage) {
	c := s.whole()
	s.must("the agent and its hub stop", func() error {
		if err := s.down(c.second); err != nil {
			return err
		}
		return s.down(c.hub)
	})
	other := &cluster{s: s, state: s.path("other")}
	s.must("another hub takes the address", func() error {
		_, err := other.up(c.address)
		return err
	})
	s.step("the agent reports that it is another hub, and ends", func() error {
		argv, _ := c.agent(c.address, "--state", c.stateOf("second"))
		o, err := s.run(nil, argv...)
		if err != nil {
			return err
		}
		return o.want(4, any, "hub")
	})
	s.step("the other hub does not list the node", func() error { return other.sees("here") })
}

// revisions: a peer of another revision and its user are informed.
func revisions(s *stage) {
	c := s.whole()
	s.step("an older agent may not join", func() error {
		token, err := c.token()
		if err != nil {
			return err
		}
		o, err := s.run(nil, s.o.old, "join", c.address, "--state", s.path("old"), "--token", token)
		if err != nil {
			return err
		}
		return o.want(4, any, "revision 2", "revision 1", "update")
	})
	s.must("the agent stops", func() error { return s.down(c.second) })
	s.step("an agent that has joined and is then put back", func() error {
		o, err := s.run(nil, s.o.old, "join", "--state", s.path("second"))
		if err != nil {
			return err
		}
		return o.want(4, any, "revision 2", "revision 1", "update")
	})
	s.step("the node that was put back is not listed as up", func() error { return c.sees("here") })
}
