// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"skep/tests/mutants/mutate"
	"skep/tests/mutants/rooms"
	"skep/tests/mutants/sandbox"
)

// A campaigner tries the mutants of rooms on one copy of the tree.
type campaigner struct {
	n       int
	jobs    int      // mutants at a time
	slot    int      // which of them this one is
	marks   []string // only these, if there are any
	skip    []string // files that are not mutated
	seed    string
	work    string
	digest  string
	runner  string
	box     sandbox.Box
	sources []string
	equal   []mutate.Equal
	stop    <-chan struct{}
}

// timeoutMin is the smallest time limit of a suite; tests of this program shorten it.
var timeoutMin = 20 * time.Second

const (
	buildMax   = 10 * time.Minute
	timeoutMax = 15 * time.Minute
)

// runCampaign tries mutants of a room until enough of them compiled.
func (c *campaigner) runCampaign(r *rooms.Room) (*tally, error) {
	list, err := c.listCandidates(r)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: nothing to change in what its suites are made of", r.Name)
	}
	s, err := openState(filepath.Join(c.work, strings.ReplaceAll(r.Name, "/", "-")+".state"), c.digest, c.seed)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s: %d mutants to choose from; %d tried before\n", r.Name, len(list), len(s.done))
	t := &tally{room: r.Name}
	next := 0
	for ; next < len(list) && t.countMutants() < c.n; next++ {
		a, known := s.done[list[next].ID()]
		if !known {
			break
		}
		t.add(list[next], a)
	}
	list = list[next:]
	if len(list) == 0 || t.countMutants() == c.n {
		return t, nil
	}
	if err := c.measure(r, goDirs(list)); err != nil {
		return t, err
	}
	return t, c.tryAll(r, list, s, t)
}

// A result is one worker's answer.
type result struct {
	mutation mutate.Mutation
	answer   sandbox.Answer
	err      error
}

// tryAll tries mutants in the order of the list, several at a time, until enough of them
// compiled. It never starts more than are still needed, since each may compile. So the
// counted mutants are the first ones of the list, however many run at a time.
func (c *campaigner) tryAll(r *rooms.Room, list []mutate.Mutation, s *state, t *tally) error {
	results := make(chan result)
	slots := make(chan int, c.jobs)
	for i := range c.jobs {
		slots <- i
	}
	var failed error
	running, next := 0, 0
	for {
		for failed == nil && next < len(list) && running < c.jobs && t.countMutants()+running < c.n {
			m := list[next]
			next++
			if a, known := s.done[m.ID()]; known {
				t.add(m, a)
				continue
			}
			running++
			slot := <-slots
			go func() {
				a, err := c.newWorker(slot).trySurely(r.Clone(), m)
				slots <- slot
				results <- result{m, a, err}
			}()
		}
		if running == 0 {
			return failed
		}
		res := <-results
		running--
		if res.err == nil {
			res.err = s.put(res.mutation, res.answer)
		}
		if res.err != nil {
			failed = errors.Join(failed, res.err)
			continue
		}
		t.add(res.mutation, res.answer)
		if res.answer.Outcome != sandbox.Broken {
			fmt.Printf("%4d %-8s %s%s\n", t.countMutants(), res.answer.Outcome, res.mutation, suiteOf(res.answer))
		}
	}
}

// newWorker returns a campaigner with a log of its own.
func (c *campaigner) newWorker(slot int) *campaigner {
	one := *c
	one.slot = slot
	return &one
}

func suiteOf(a sandbox.Answer) string {
	if a.Suite == "" {
		return ""
	}
	return "  (" + a.Suite + ": " + mutate.Shorten(a.Why) + ")"
}

// listCandidates lists the mutations of a room, in the order in which they are tried.
func (c *campaigner) listCandidates(r *rooms.Room) ([]mutate.Mutation, error) {
	files, err := r.Files(c.box.Tree, c.sources)
	if err != nil {
		return nil, err
	}
	for _, name := range c.skip {
		i := slices.Index(files, name)
		if i < 0 && strings.HasPrefix(name, r.Name+"/") {
			return nil, fmt.Errorf("%s: no file %s that could be mutated: its room.mk names it", r.Name, name)
		}
		if i >= 0 {
			files = slices.Delete(files, i, i+1)
		}
	}
	var all []mutate.Mutation
	for _, name := range files {
		list, err := mutate.Of(c.box.Tree, name)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return mutate.Choose(c.seed, c.selectMarked(mutate.WithoutEqual(all, c.equal))), nil
}

// selectMarked returns the mutations that the user chose.
func (c *campaigner) selectMarked(all []mutate.Mutation) []mutate.Mutation {
	if len(c.marks) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(m mutate.Mutation) bool { return !slices.Contains(c.marks, m.Mark) })
}

// goDirs returns the Go packages that contain the mutations.
func goDirs(list []mutate.Mutation) []string {
	var dirs []string
	for _, m := range list {
		if dir := filepath.Dir(m.File); strings.HasSuffix(m.File, ".go") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// measure builds and runs the suites without a mutant. All must pass, and their times set
// the time limits for mutants.
func (c *campaigner) measure(r *rooms.Room, goDirs []string) error {
	t := c.makeTask(r.Suites)
	t.GoDirs = goDirs // fills vet's cache for the libraries
	t.Box.Keep = true
	fmt.Printf("%s: %d suites without a mutant\n", r.Name, len(r.Suites))
	a, err := c.send(t)
	if err != nil {
		return err
	}
	if a.Outcome != sandbox.Survived {
		return fmt.Errorf("%s: suite %s without a mutant: %s %s: see %s", r.Name, a.Suite, a.Outcome, a.Why, c.log())
	}
	for i := range r.Suites {
		s := &r.Suites[i]
		s.Timeout = max(timeoutMin, 8*a.Took[s.Name])
	}
	sort.SliceStable(r.Suites, func(i, k int) bool {
		return a.Took[r.Suites[i].Name] < a.Took[r.Suites[k].Name]
	})
	return nil
}

func (c *campaigner) makeTask(suites []sandbox.Trial) sandbox.Task {
	return sandbox.Task{Box: c.box, Runner: c.runner, Suites: suites, BuildMax: buildMax, MemoryMax: memoryMax()}
}

// memoryMax returns the memory limit: half of the machine's memory, or an amount that no
// suite needs.
func memoryMax() int64 {
	const most = 6 << 30
	text, err := os.ReadFile("/proc/meminfo")
	var kib int64
	if err != nil {
		return most
	}
	if n, _ := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); n == 1 {
		return min(most, kib<<10/2)
	}
	return most
}

func (c *campaigner) log() string {
	if c.slot == 0 {
		return filepath.Join(c.work, "last.log")
	}
	return filepath.Join(c.work, fmt.Sprintf("last-%d.log", c.slot))
}

func (c *campaigner) send(t sandbox.Task) (sandbox.Answer, error) {
	log, err := os.Create(c.log())
	if err != nil {
		return sandbox.Answer{}, err
	}
	defer log.Close()
	return sandbox.Run(t, log, c.stop)
}

// trySurely tries one mutant. If a suite does not end in time, the machine may be the
// cause, so trySurely checks that the suite ends in this time without the mutant.
func (c *campaigner) trySurely(r *rooms.Room, m mutate.Mutation) (sandbox.Answer, error) {
	for {
		a, err := c.tryMutation(r, m)
		if err != nil || a.Outcome != sandbox.Hung {
			return a, err
		}
		s := r.Suite(a.Suite)
		plain, err := c.send(c.makeTask([]sandbox.Trial{*s}))
		if err != nil || plain.Outcome == sandbox.Survived {
			return a, err
		}
		if s.Timeout *= 2; plain.Outcome != sandbox.Hung || s.Timeout > timeoutMax {
			return a, fmt.Errorf("%s: suite %s fails now without a mutant: %s", r.Name, s.Name, plain.Why)
		}
	}
}

func (c *campaigner) tryMutation(r *rooms.Room, m mutate.Mutation) (sandbox.Answer, error) {
	text, err := os.ReadFile(filepath.Join(c.box.Tree, m.File))
	if err != nil {
		return sandbox.Answer{}, err
	}
	t := c.makeTask(sortByNearest(r.Suites, m.File))
	t.File, t.Text = m.File, m.Apply(text)
	if strings.HasSuffix(m.File, ".go") {
		t.GoDirs = []string{filepath.Dir(m.File)}
	}
	return c.send(t)
}

// sortByNearest sorts suites: first those named like the file, then the others by their
// duration.
func sortByNearest(suites []sandbox.Trial, file string) []sandbox.Trial {
	word := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	out := append([]sandbox.Trial{}, suites...)
	sort.SliceStable(out, func(i, k int) bool {
		return strings.Contains(out[i].Name, word) && !strings.Contains(out[k].Name, word)
	})
	return out
}
