// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// confinement has the bounds that this agent sets for programs.
type confinement struct {
	bounds
	open []string // what stays open, for people
}

// Confined describes to a node's owner how programs are confined.
type Confined struct {
	Kind Confinement
	Open []string // each is a part of a sentence
}

func (c Confined) String() string {
	text := "programs are confined by " + string(c.Kind)
	switch c.Kind {
	case ConfinedNot:
		text = "programs are not confined"
	case ConfinedBee:
		text = "programs run under bee, which is not a sandbox"
	}
	if len(c.Open) > 0 {
		text += "; open to them: " + strings.Join(c.Open, ", ")
	}
	return text
}

// FindConfined returns how an agent on this machine would confine programs.
func FindConfined() (Confined, error) {
	if systemIsWindows {
		return Confined{Kind: ConfinedBee, Open: openUnderBee}, nil
	}
	dir, err := os.MkdirTemp("", "skep-confined-")
	if err != nil {
		return Confined{}, err
	}
	defer RemoveAll(dir)
	a, err := newAgent(Config{State: dir})
	if err != nil {
		return Confined{}, err
	}
	defer a.unlock()
	return a.Confined(), nil
}

// openUnderBee names what bee leaves open: it emulates Linux and is no sandbox.
var openUnderBee = []string{"the network", "what a fault in bee would let them do as the agent's user"}

// checkAllowed refuses allowances that would not have the effect that the owner intends.
func checkAllowed(paths []string) error {
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be allowed to programs: %w", path, errors.Unwrap(err))
		case !filepath.IsAbs(path):
			return fmt.Errorf("%s cannot be allowed to programs: give the path from / on", path)
		case real != filepath.Clean(path):
			return fmt.Errorf("%s cannot be allowed to programs: it is a link, allow %s", path, real)
		case real == "/":
			return errors.New("/ cannot be allowed to programs: name the folders below it")
		}
	}
	return nil
}

// stateDirs lists the state directories of this machine that the agent knows of.
func (c *Config) stateDirs() []string {
	var list []string
	for _, dir := range append([]string{c.State}, c.Hide...) {
		dir, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		list = append(list, dir)
	}
	slices.Sort(list)
	// A directory inside another of them is hidden with it.
	return slices.CompactFunc(list, func(outer, inner string) bool { return isWithin(inner, outer) })
}

// boundsFor returns the bounds of a program that works in dirs and is started from
// files that it may read.
func (a *Agent) boundsFor(dirs, files []string) bounds {
	b := a.confined.bounds
	b.Write = append(slices.Clone(b.Write), dirs...)
	b.Read = append(slices.Clone(b.Read), files...)
	for _, file := range files {
		a.letRead(file)
	}
	return b
}

// letRead lets the user of confined programs read a file of the agent's. The folder above is open
// to the agent alone.
func (a *Agent) letRead(file string) {
	if isWithin(file, filepath.Dir(a.work)) && a.confined.RunAs != 0 {
		os.Chmod(file, 0o555)
	}
}

// makeOwn makes a directory that a program may write to.
func (a *Agent) makeOwn(p *area, pattern string) (string, error) {
	dir, err := os.MkdirTemp(p.tmp, pattern)
	if err == nil && a.confined.RunAs != 0 {
		err = os.Chown(dir, a.confined.RunAs, a.confined.RunAs)
	}
	return dir, err
}

// makeReport creates the file to which a confined bee writes its report: bee cannot create it, because it does not see the directory.
func (a *Agent) makeReport(path string) error {
	if systemIsWindows {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if a.confined.RunAs != 0 {
		err = f.Chown(a.confined.RunAs, a.confined.RunAs)
	}
	return errors.Join(err, f.Close())
}
