// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"skep/grid/hub"
	"skep/grid/label"
	"skep/grid/proto"
	"skep/internal/cli"
	"skep/internal/patience"
)

type run struct {
	state    string
	modules  []string
	slots    int
	hostfile string
	allow    allowances
	limits   proto.Limits
	terms    hub.RunRequest // what the options say of the run's calls
	detach   bool
	held     bool   // this process is the holder of a detached run
	keep     string // its folder
	lease    time.Duration
	hubDir   string // the state directory of the run's hub
}

func (r *run) options(f *cli.Flags) {
	f.StringVar(&r.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.IntVar(&r.slots, "slots", 0, "without a hub: run `N` workers at a time (one per CPU)")
	f.StringVar(&r.hostfile, "hostfile", "", "run on the hosts of OmniRPC's `FILE`, hosts.xml, with a hub of this run's own")
	f.BoolVar(&r.detach, "detach", false, "return at once: the master goes on without this terminal")
	f.DurationVar(&r.lease, "lease", 0, "with --detach: end the master after `TIME`, such as 48h")
	f.Func("on", "run the calls on the nodes that `SELECTOR` chooses: terms such as os=NAME, node=NAME, substrate=NAME, cpus>=N, memory>=SIZE and labels, with commas between them (default: all)", func(text string) error {
		_, err := label.Parse(text)
		r.terms.On = text
		return err
	})
	f.Func("deadline", "end a call that is not done after `TIME`, such as 2h, waiting included (default: none)", func(text string) (err error) {
		if r.terms.Deadline, err = time.ParseDuration(text); err != nil || r.terms.Deadline <= 0 {
			return errors.New("want a time such as 30s, 10m or 2h")
		}
		return nil
	})
	f.Func("attempts", "run a call whose worker dies at most `N` times, from 1 to 100 (4)", func(text string) (err error) {
		if r.terms.Attempts, err = strconv.Atoi(text); err != nil || r.terms.Attempts < 1 || r.terms.Attempts > 100 {
			return errors.New("want a number from 1 to 100")
		}
		return nil
	})
	f.Func("priority", "run its calls before those of your runs with a smaller `N`, from -1000 to 1000 (0)", func(text string) (err error) {
		if r.terms.Priority, err = strconv.Atoi(text); err != nil || r.terms.Priority < -hub.PriorityMax || r.terms.Priority > hub.PriorityMax {
			return fmt.Errorf("want a number from %d to %d", -hub.PriorityMax, hub.PriorityMax)
		}
		return nil
	})
	r.allow.options(f)
	limitOptions(f, "", "each call", &r.limits)
	f.Func("modules", "look for worker programs in `DIR` too (any number of times)", func(dir string) error {
		r.modules = append(r.modules, dir)
		return nil
	})
}

func (r *run) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a master program is expected")
	}
	if err := checkSlots(f, r.slots); err != nil {
		return err
	}
	master, err := exec.LookPath(words[0])
	if err != nil {
		return notRun(words[0], err)
	}
	if r.detach {
		return r.leaveRunning(ctx, f, master, words)
	}
	if f.Given("lease") {
		return f.Usagef("--lease is for runs with --detach; any other run ends with its terminal")
	}
	c, stop, err := r.openHub(ctx, f)
	if err != nil {
		return err
	}
	defer stop()
	return r.runMaster(ctx, c, master, words)
}

// runMaster runs a master with a hub, until the master and its run have ended.
func (r *run) runMaster(ctx context.Context, c *hub.Client, master string, words []string) error {
	dirs, err := r.moduleDirs(master)
	if err != nil {
		return err
	}
	w := newWatch(os.Stderr)
	defer w.close()
	c.Away = w.showAway
	// An interrupt does not end the run at once, so that the master can end in
	// order.
	socket, events, err := r.openRun(ctx, c, hub.RunRequest{Name: filepath.Base(master), Dirs: dirs, Limits: r.limits, On: r.terms.On, Deadline: r.terms.Deadline, Attempts: r.terms.Attempts, Priority: r.terms.Priority})
	if err != nil {
		return withExitCode(err)
	}
	defer events.Forget()
	if !r.findsNode(ctx, c) {
		w.printError("no node matches %s: calls wait for one, and fail after a minute; 'skep nodes' lists the nodes", r.terms.On)
	}
	shown, again := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(shown)
		w.followRun(c, events, again)
	}()
	err = r.startMaster(ctx, master, words, socket, events.Keep(), w)
	if e := endStream(events, shown, again); e != nil {
		w.printError("the run could not be ended in order, so the last lines of its workers may be missing (%v)", e)
	}
	return err
}

// findsNode reports whether the selector of the run chooses one of the nodes, be it up or not.
// It does too if there are none yet.
func (r *run) findsNode(ctx context.Context, c *hub.Client) bool {
	on, err := label.Parse(r.terms.On)
	if r.terms.On == "" || err != nil {
		return true
	}
	list, err := c.Nodes(ctx, "")
	return err != nil || len(list) == 0 || slices.ContainsFunc(list, func(n hub.NodeInfo) bool { return on.Matches(n.About()) })
}

// openWithin is how long a detached run, which was accepted, waits for a hub that is started
// again.
const openWithin = time.Minute

// openRun opens the run at the hub. One that a hub opened before it was killed is dropped by
// the next hub, because nobody claims it.
func (r *run) openRun(ctx context.Context, c *hub.Client, v hub.RunRequest) (socket string, events *hub.Stream, err error) {
	for left := patience.New(openWithin, hub.TryMost); ; {
		began := time.Now()
		socket, events, err = c.Run(context.WithoutCancel(ctx), v)
		gone := errors.Is(err, hub.ErrNoHub) || errors.Is(err, hub.ErrHubEnded) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
		if !r.held || !gone {
			return socket, events, err
		}
		select {
		case <-ctx.Done():
			return "", nil, cli.Exit(exitStopped)
		case <-time.After(hubPoll):
		}
		if !left.Spend(began) {
			return socket, events, err
		}
	}
}

// endStream ends the run, and waits until all its events were shown. A hub that is killed
// after its answer has not stored that the run ends, so the hub that comes after it is asked
// again.
func endStream(events *hub.Stream, shown, again <-chan struct{}) error {
	if err := endEvents(events, shown); err != nil {
		return err
	}
	for {
		select {
		case <-shown:
			return nil
		case <-again:
			endEvents(events, shown) // if the run is over there, so are its events
		}
	}
}

// openHub returns the hub that runs here, or starts one for this run.
func (r *run) openHub(ctx context.Context, f *cli.Flags) (c *hub.Client, stop func(), err error) {
	if r.hostfile != "" {
		if f.Given("state") || f.Given("slots") {
			return nil, nil, f.Usagef("--hostfile starts a hub and says how many workers each host runs: leave --state and --slots out")
		}
		return r.startHosts(ctx)
	}
	if r.hubDir, err = stateDir(r.state); err != nil {
		return nil, nil, err
	}
	if c, err = openControl(r.hubDir); err != nil {
		return nil, nil, err
	}
	switch _, err := c.Status(ctx); {
	case c.IsFar() && (f.Given("slots") || r.allow.isGiven()):
		return nil, nil, f.Usagef("this account submits to a hub: --slots and --allow are for the owners of its nodes")
	case errors.Is(err, hub.ErrNoHub) && !c.IsFar():
		return r.startAlone()
	case err != nil:
		return nil, nil, withExitCode(err)
	case f.Given("slots"):
		return nil, nil, f.Usagef("a hub runs here: --slots of 'skep up' or 'skep join' says how many workers each node runs")
	case r.allow.isGiven():
		return nil, nil, f.Usagef("a hub runs here: what programs may reach is allowed where 'skep up' or 'skep join' was typed on each node")
	}
	return c, func() {}, nil
}

// followRun shows the events of a run, also of a hub that is started after its hub was
// killed; again then gets a value.
func (w *watch) followRun(c *hub.Client, events *hub.Stream, again chan<- struct{}) {
	for {
		err := w.followEvents(events)
		events.Close()
		if errors.Is(err, io.EOF) {
			return
		}
		w.printError("the hub was lost; the run continues when another hub is started there, for up to %v", events.Keep())
		if events, err = c.RunAgain(context.Background(), events); err != nil {
			w.printError("the run cannot continue: %v", err)
			return
		}
		w.printError("the hub is there again")
		select {
		case again <- struct{}{}:
		default:
		}
	}
}

// endEvents ends the run, also if its hub has to be started again for that. shown is closed
// when nobody waits for the hub any more.
func endEvents(events *hub.Stream, shown <-chan struct{}) error {
	for lost := false; ; {
		err := events.End(context.Background())
		var refused *proto.Problem
		switch {
		case lost && errors.As(err, &refused):
			return nil // it was ended, and the answer was lost
		case errors.Is(err, hub.ErrHubEnded):
			lost = true
		case !errors.Is(err, hub.ErrNoHub):
			return err
		}
		select {
		case <-shown:
			return err
		case <-time.After(hubPoll):
		}
	}
}

// hubPoll is how often a run that has ended asks for its hub.
const hubPoll = 100 * time.Millisecond

// moduleDirs returns the folders that are searched for worker programs, the master's first.
func (r *run) moduleDirs(master string) ([]string, error) {
	var dirs []string
	for _, dir := range append([]string{filepath.Dir(master), "."}, r.modules...) {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	// The registry of OmniRPC's tools, if there is one.
	if dir, err := registryPath(); err == nil {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range r.modules {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, cli.Errorf(cli.Usage, "run: --modules %s is not a directory", dir)
		}
	}
	return dirs, nil
}

const masterTimeout = 5 * time.Second

func (r *run) startMaster(ctx context.Context, master string, words []string, socket string, keep time.Duration, w *watch) error {
	out := w.openScreen()
	defer out.close()
	cmd := exec.CommandContext(ctx, master, words[1:]...)
	cmd.Args[0] = words[0]
	// So `skep nodes` and the like, which the program may call, find its hub.
	cmd.Env = append(os.Environ(), "SKEP_SOCKET="+socket, cli.StateVariable+"="+r.hubDir,
		fmt.Sprintf("SKEP_KEEP_RUNS=%d", int64(keep.Seconds())))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out.stdout, out.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = masterTimeout
	if r.held {
		cmd.Env = append(cmd.Env, "SKEP_KEEP="+r.keep)
		defer endWithThis(cmd)()
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return cli.Exit(exitStopped)
	case errors.As(err, &exit):
		return cli.Exit(exitStatus(exit.ProcessState))
	}
	return notRun(words[0], err)
}

// exitStatus returns 128+n for a process killed by signal n, like a shell.
func exitStatus(state *os.ProcessState) int {
	if code := state.ExitCode(); code >= 0 {
		return code & 0xff
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cli.Failed
}
