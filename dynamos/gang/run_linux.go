// SPDX-License-Identifier: MIT

package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/cgroup"
)

// Patience is how long a gang may take to stop before the next one runs nevertheless. A process
// in an uninterruptible sleep, for example for a file server that does not answer, cannot stop.
const Patience = 5 * time.Second

// endIn is how long programs may take to end after SIGTERM.
const endIn = 5 * time.Second

// A Job describes gangs that take turns.
type Job struct {
	Period   time.Duration
	Groups   []string   // control groups with processes
	Programs [][]string // commands, each of which gets a control group; the first word is a path
	Paging   Paging     // between two turns
	Guard    []string   // the command that runs RunGuard with the words behind it
	Log      io.Writer  // nil, or gets a line of JSON per turn
	Began    func()     // called when the first gang runs
}

// A Turn is a line of the log.
type Turn struct {
	Began   time.Time `json:"began"`
	Gang    int       `json:"gang"`    // from 1
	Stop    float64   `json:"stop"`    // seconds until the gang before it had stopped
	Prepare float64   `json:"prepare"` // seconds until the memory was ready
	Out     uint64    `json:"out"`     // bytes that were paged out meanwhile
	In      uint64    `json:"in"`      // and in
	Late    bool      `json:"late,omitempty"`
}

// runner does what a rotation says.
type runner struct {
	job      *Job
	groups   []*group
	programs []*exec.Cmd // nil for a group that was there
	codes    []int
	rotation *Rotation
	events   chan struct{} // a group's state has changed
	exits    chan exited
	alive    int // programs that have been started and have not ended
	pager    pager
	prepared chan loaded // the pager is ready
	paging   bool
	asked    time.Time // when the last stop was asked for
	turn     Turn
}

type exited struct{ gang, code int }

type loaded struct {
	out, in uint64
	err     error
}

// Run lets gangs take turns until all have ended, or the context is cancelled. The groups come
// first, then the programs, in the order of the job. It returns the exit codes of the programs,
// 128+N for signal N. However it ends, no group stays frozen and no program stays.
func Run(ctx context.Context, job *Job) (codes []int, err error) {
	r := &runner{job: job, events: make(chan struct{}, 1), exits: make(chan exited), prepared: make(chan loaded, 1)}
	defer r.closeLocks()
	if err := r.openGroups(); err != nil {
		return nil, err
	}
	g, err := startGuard(job.Guard, r.groups)
	if err != nil {
		return nil, err
	}
	defer g.close()
	err = r.rotate(ctx, g)
	return r.codes, errors.Join(err, r.end(err != nil))
}

// openGroups opens the groups that are there, and names those of programs.
func (r *runner) openGroups() error {
	root, err := cgroup.FindRoot(cgroup.Mounts)
	if err != nil {
		return err
	}
	own, err := cgroup.FindOwn(cgroup.Self)
	if err != nil {
		return err
	}
	if err := r.openThere(root, own); err != nil {
		return err
	}
	r.namePrograms(filepath.Join(root, own))
	r.pager = pager{Paging: r.job.Paging, root: root, groups: r.groups}
	return r.pager.open(false)
}

// openThere opens the groups that are there. own is the group of this process.
func (r *runner) openThere(root, own string) error {
	for _, word := range r.job.Groups {
		g, err := findGroup(root, own, word)
		if err != nil {
			return err
		}
		r.groups = append(r.groups, g)
	}
	if err := checkApart(r.groups); err != nil {
		return err
	}
	for _, g := range r.groups {
		if err := g.open(); err != nil {
			return err
		}
	}
	return nil
}

// namePrograms names the groups of programs, which will be made in the folder dir.
func (r *runner) namePrograms(dir string) {
	r.programs = make([]*exec.Cmd, len(r.groups))
	for i, words := range r.job.Programs {
		name := fmt.Sprintf("skep-gang-%d-%d", os.Getpid(), i+1)
		r.groups = append(r.groups, &group{dir: filepath.Join(dir, name), ours: true})
		c := exec.Command(words[0], words[1:]...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if i == 0 {
			c.Stdin = os.Stdin // as mpirun does
		}
		r.programs = append(r.programs, c)
	}
	r.codes = make([]int, len(r.job.Programs))
}

func (r *runner) closeLocks() {
	for _, g := range r.groups {
		if g.lock != nil {
			g.lock.Close()
		}
	}
}

// rotate switches until all gangs have ended.
func (r *runner) rotate(ctx context.Context, guard *guard) error {
	for _, g := range r.groups {
		if !g.ours {
			continue
		}
		if err := g.create(); err != nil {
			return err
		}
	}
	if err := r.pager.open(true); err != nil {
		return err
	}
	watch, err := watchGroups(r.groups, r.events)
	if err != nil {
		return err
	}
	defer watch.Close()
	r.rotation = NewRotation(len(r.groups), r.job.Period, Patience)
	acts := r.rotation.Begin(time.Now())
	for {
		for _, a := range acts {
			if err := r.act(a); err != nil {
				return err
			}
		}
		if r.rotation.Over() {
			return nil
		}
		if len(acts) == 0 {
			if err := r.wait(ctx, guard); err != nil {
				return err
			}
		}
		if err := r.observe(); err != nil {
			return err
		}
		acts = r.rotation.Step(time.Now())
	}
}

// observe tells the rotation the state of each group.
func (r *runner) observe() error {
	for i, g := range r.groups {
		frozen, ended, err := g.read()
		if err != nil {
			return err
		}
		r.rotation.Observe(i, frozen, ended)
	}
	return nil
}

// wait waits for an event or the rotation's deadline.
func (r *runner) wait(ctx context.Context, guard *guard) error {
	var late <-chan time.Time
	if d := r.rotation.Deadline(); !d.IsZero() {
		t := time.NewTimer(time.Until(d))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-late:
	case <-r.events:
	case e := <-r.exits:
		r.noteExit(e)
	case l := <-r.prepared:
		r.paging, r.turn.Out, r.turn.In = false, l.out, l.in
		r.rotation.Prepared()
		return l.err
	case <-guard.ended:
		return errors.New("the guard of the gangs was ended")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (r *runner) act(a Act) error {
	switch a.Kind {
	case Stop:
		r.asked = time.Now()
		return r.groups[a.Gang].freeze()
	case Prepare:
		r.turn = Turn{Gang: a.Gang + 1, Stop: time.Since(r.asked).Seconds(), Late: a.Late}
		r.asked = time.Now()
		r.paging = true
		go func() {
			out, in, err := r.pager.prepare(a.From, a.Gang)
			r.prepared <- loaded{out, in, err}
		}()
		return nil
	}
	r.turn.Began, r.turn.Prepare = time.Now(), time.Since(r.asked).Seconds()
	if err := r.letGo(a.Gang); err != nil {
		return err
	}
	if r.job.Began != nil {
		r.job.Began()
		r.job.Began = nil
	}
	return r.logTurn()
}

func (r *runner) logTurn() error {
	if r.job.Log == nil {
		return nil
	}
	line, err := json.Marshal(r.turn)
	if err != nil {
		return err
	}
	_, err = r.job.Log.Write(append(line, '\n'))
	return err
}

// letGo lets a gang run. Its program is started at its first turn.
func (r *runner) letGo(gang int) error {
	g, c := r.groups[gang], r.programs[gang]
	if err := g.thaw(); err != nil || g.begun {
		return err
	}
	c.SysProcAttr = &unix.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.lock.Fd())}
	if err := c.Start(); err != nil {
		return &StartError{c.Path, err}
	}
	g.begun = true
	r.alive++
	go func() {
		c.Wait()
		r.exits <- exited{gang, exitCode(c.ProcessState)}
	}()
	return nil
}

// A StartError says that a program cannot be started.
type StartError struct {
	Path string
	Err  error
}

func (e *StartError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

func (r *runner) noteExit(e exited) {
	r.codes[e.gang-len(r.job.Groups)] = e.code
	r.alive--
}

// end leaves nothing behind. Programs that still run are told to end before they are killed.
func (r *runner) end(early bool) (failed error) {
	if r.paging {
		<-r.prepared // it would go on with groups that are gone
	}
	for _, g := range r.groups {
		if early && g.ours {
			g.eachProcess(func(pid int) { unix.Kill(pid, unix.SIGTERM) })
		}
		failed = errors.Join(failed, g.thaw())
	}
	for over := time.After(endIn); early && (r.alive > 0 || r.populated()); {
		select {
		case e := <-r.exits:
			r.noteExit(e)
		case <-time.After(removePoll):
		case <-over:
			early = false
		}
	}
	for _, g := range r.groups {
		failed = errors.Join(failed, g.release())
	}
	for _, c := range r.programs {
		if c != nil && c.Process != nil {
			c.Process.Kill() // it may have left its group
		}
	}
	for r.alive > 0 {
		r.noteExit(<-r.exits)
	}
	return failed
}

// populated reports whether a program's group has a process.
func (r *runner) populated() bool {
	for _, g := range r.groups {
		if _, ended, err := g.read(); g.ours && g.begun && err == nil && !ended {
			return true
		}
	}
	return false
}

// watchGroups sends an event whenever a group's state changes, until the file is closed.
func watchGroups(groups []*group, events chan<- struct{}) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inotify")
	for _, g := range groups {
		path := filepath.Join(g.dir, "cgroup.events")
		if _, err := unix.InotifyAddWatch(fd, path, unix.IN_MODIFY|unix.IN_DELETE_SELF); err != nil {
			return nil, errors.Join(&os.PathError{Op: "watch", Path: path, Err: err}, f.Close())
		}
	}
	go func() {
		for buffer := make([]byte, 4096); ; {
			if _, err := f.Read(buffer); err != nil {
				return
			}
			select {
			case events <- struct{}{}:
			default:
			}
		}
	}()
	return f, nil
}
