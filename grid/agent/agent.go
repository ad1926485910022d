// SPDX-License-Identifier: MIT

// Package agent makes a machine a node: it joins a hub, asks it for work,
// pulls what the work needs, and runs it in worker processes, natively on Linux
// and under bee on Windows. It only dials out.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"skep/grid/ident"
	"skep/grid/policy"
	"skep/grid/proto"
	"skep/grid/rolls"
	"skep/internal/place"
	"skep/internal/uapi"
)

// A RefusedError is a sentence with which HoldUpdate refuses an update.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Config has the owner's settings of a node. State is required.
type Config struct {
	State   string   // directory of identity, cache and temporary files
	Hub     string   // host:port; empty: as joined
	Near    Near     // the same hub, if it is in this process; else nil
	Name    string   // empty: the machine's
	Labels  []string // KEY=VALUE, by which users choose this node
	Version string   // of the program, for people
	Slots   int      // 0: one per CPU
	Bee     string   // bee's path: required on Windows, where empty is "beside this program"; on Linux empty runs workers natively
	Cache   uint64   // most bytes of blobs, 0: 8 GiB
	Log     func(format string, args ...any)
	Status  func(text string) // called with what the agent does now, or nil
	Alive   func()            // called every few seconds and at each try to connect, or nil
	Guard   []string          // command of the guard, empty: this program with "guard"
	// Leave is closed, or receives a value, when Run has to return ErrLeft as soon as no
	// session and no program is left here; nil: never.
	Leave <-chan os.Signal
	// Hurry receives a value when Run has to return at once, although it moves programs to other
	// nodes after its context has ended; nil: it moves none.
	Hurry <-chan os.Signal
	// Run returns ErrLost after so long without a hub; 0: never.
	Lost time.Duration

	// What programs may access in addition to the system and their own directory. The hub and its users cannot extend it.
	Read, Write []string
	Network     bool
	Hide        []string // state directories beside State
	// When and how much programs may run, and what that policy is called; nil: always.
	Policy     *policy.Policy
	PolicyName string
	// The kernel that rolls of kernel updates change, if root runs the agent; else where
	// root's host for them listens. nil and empty: this node takes part in none.
	Rolls      rolls.Kernel
	RollSocket string
	// HoldUpdate puts a kernel update in force for a cgroup of this agent, until end is called;
	// nil: none can be. A RefusedError is shown to the user as a refusal.
	HoldUpdate func(ctx context.Context, name, cgroup string) (end func(), err error)
	// Kernel says what Skep changes in this machine's kernel; nil: nothing is known.
	Kernel func() proto.Kernel
	// Most that a program may use; 0 is this machine's part for each slot.
	Limits proto.Limits

	confine               *bounds // if a test sets it, no other bounds are tried
	muteLimit, startLimit time.Duration
}

// Agent is one node. leases holds what it runs, by fence.
type Agent struct {
	config     Config
	bee        beeLoader
	guard      []string
	work, tmp  string
	logs       string // what workers wrote
	reports    string // of bee, outside the folder that programs on Windows see
	unlock     func() // releases the state directory
	muteLimit  time.Duration
	startLimit time.Duration
	began      time.Time
	boot       string

	connected bool            // at least once, to the hub that it joined
	lost      time.Time       // when the last connection ended, or Run began
	away      map[string]bool // why there is no connection, as far as it is logged
	store     store
	areas     areas // of users with accounts
	pool      *pool
	owner     *owner
	room      freeRoom
	disk      uint64 // bytes that were free at the start
	programs  memories
	initials  memories // data of Initialize
	confined  confinement
	mover     mover
	rolls     roller   // nil: takes part in none
	cgroups   *cgroups // nil: guards alone hold programs to their limits
	ungrouped error    // why there are no control groups

	hubMu sync.RWMutex
	hub   hub // the current connection, replaced when it breaks
	// closed when there is a connection again; nil: there is one
	unlinked chan struct{}
	asking   sync.Mutex // held while this node's free slots are counted and reported

	life    context.Context // of leases, beyond connections
	endLife context.CancelFunc

	mu      sync.Mutex
	leases  map[uint64]*lease
	ends    ends
	epoch   int // counts connections
	execs   map[string]execution
	ending  int            // sessions whose workers end
	running sync.WaitGroup // all but leases
	leasing sync.WaitGroup
	stopped bool

	warnYield sync.Once // that Windows refused a priority
}

// A lease is a call that this node was given.
type lease struct {
	proto.Lease
	args   []byte // inline ones
	area   *area  // of its user
	cancel context.CancelFunc
	epoch  int           // of the connection over which it came
	begun  atomic.Bool   // it has a slot
	ended  chan struct{} // closed when the call was reported

	giveBack func()   // cancels it, because the machine's owner needs the computer
	program  *program // once it has a slot
}

// newAgent prepares the directories, without the identity and the connection.
func newAgent(c Config) (*Agent, error) {
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.Alive == nil {
		c.Alive = func() {}
	}
	if c.Slots <= 0 {
		c.Slots = runtime.NumCPU()
	}
	a := &Agent{config: c, guard: c.Guard, pool: newPool(c.Slots), began: time.Now(), away: map[string]bool{},
		muteLimit: proto.WorkerMute, startLimit: time.Minute, boot: fmt.Sprintf("%016x", newNonce()),
		leases: map[uint64]*lease{}, execs: map[string]execution{},
		programs: memories{fits: uapi.CheckStatic}}
	a.life, a.endLife = context.WithCancel(context.Background())
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if len(a.guard) == 0 {
		a.guard = []string{self, "guard"}
	}
	if a.bee, err = findBee(c.Bee, self); err != nil {
		return nil, err
	}
	if c.muteLimit > 0 {
		a.muteLimit = c.muteLimit
	}
	if !a.bee.isSet() { // bee first reads the whole program
		a.startLimit = a.muteLimit
	}
	if c.startLimit > 0 {
		a.startLimit = c.startLimit
	}
	if err := a.makeDirs(); err != nil {
		return nil, err
	}
	a.owner = newOwner(a, c.PolicyName, c.Policy)
	if err := a.openRolls(); err != nil {
		a.unlock()
		return nil, err
	}
	a.disk = freeBytes(a.work)
	a.pool.spare = a.spareWorkers
	a.config.setDefaults(a.config.Slots, a.disk, a.bee.isSet())
	a.prepareCgroups()
	if err := a.chooseConfinement(); err != nil {
		a.unlock()
		return nil, err
	}
	a.mover = a.findMover(self)
	return a, nil
}

// Confined describes how this node confines programs.
func (a *Agent) Confined() Confined { return Confined{a.confined.Kind, a.confined.open} }

func findBee(path, self string) (beeLoader, error) {
	if path == "" && !systemIsWindows {
		return "", nil
	}
	if path == "" {
		path, _ = place.FindFor(self, "bee.exe") // if it is missing, this says so below
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is missing: workers run under bee only, put it beside skep", path)
	}
	return beeLoader(path), nil
}

// makeDirs creates the directories, locks them, and empties the temporary ones. Nothing uses
// the files of an agent that was killed, because its guards ended its programs.
func (a *Agent) makeDirs() error {
	state, err := filepath.Abs(a.config.State)
	if err != nil || a.config.State == "" {
		return errors.New("the agent needs a state directory: give --state DIR")
	}
	a.work = filepath.Join(state, "work")
	a.tmp = filepath.Join(a.work, "tmp")
	a.reports, a.logs = filepath.Join(state, "reports"), filepath.Join(state, "logs")
	if err := ident.StateDir(a.logs); err != nil {
		return err
	}
	if err := ident.StateDir(a.work); err != nil {
		return err
	}
	if a.unlock, err = ident.TryLock(filepath.Join(a.work, "agent.lock")); err != nil {
		return fmt.Errorf("another agent uses %s: stop it, or give this one another --state: %w", state, err)
	}
	if real, err := filepath.EvalSymlinks(a.work); err == nil && !systemIsWindows {
		a.work, a.tmp = real, filepath.Join(real, "tmp")
		a.reports = filepath.Join(filepath.Dir(real), filepath.Base(a.reports))
	}
	for _, dir := range []string{a.tmp, a.reports} {
		if err := RemoveAll(dir); err != nil {
			return fmt.Errorf("the state directory is in use or damaged: %w", err)
		}
		if err := ident.StateDir(dir); err != nil {
			return err
		}
	}
	return a.openAreas(filepath.Join(filepath.Dir(a.work), "users"))
}

func (a *Agent) hello() proto.Hello {
	total, _ := memoryInfo()
	name := a.config.Name
	if name == "" {
		name, _ = os.Hostname()
	}
	return proto.Hello{Revision: proto.Revision, Version: a.config.Version, Name: name,
		OS: runtime.GOOS, System: systemText(), Substrate: a.substrate().String(),
		CPUs: runtime.NumCPU(), Memory: total, Slots: a.config.Slots, Boot: a.boot,
		Confined: string(a.confined.Kind), Open: strings.Join(a.confined.open, ", "), Sessions: a.pool.sessionNames(), Carried: a.listCarried(), Releases: true, Rolls: a.takesRolls(), Holds: a.config.HoldUpdate != nil, Moves: a.mover.bee != "",
		Labels: a.config.Labels, Apart: true, Programs: true, Lasting: true, Data: true, Callbacks: true, Objects: true, Hubs: true}
}

// roomAge is how old a reported room may be. A report is sent after each call, and the system
// takes 70 us to say how much memory is free.
const roomAge = 50 * time.Millisecond

// A freeRoom is what is free on this machine. The lock guards what was read last.
type freeRoom struct {
	mu   sync.Mutex
	last room
	at   time.Time
}

// A room is in bytes.
type room struct {
	total, memory uint64
	disk          uint64
}

// read returns the room of the machine, and of the disk on which dir is.
func (f *freeRoom) read(dir string) room {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) >= roomAge {
		f.last.total, f.last.memory = memoryInfo()
		f.last.disk, f.at = freeBytes(dir), time.Now()
	}
	return f.last
}

// spareWorkers returns how many idle workers may be kept beyond the slots. What they hold must
// not be missed by the programs of the slots, whose limits share nearly all of the memory and
// half of the disk.
func (a *Agent) spareWorkers() int {
	if r := a.room.read(a.work); r.memory < r.total/2 || r.disk < a.disk/4*3 {
		return 0
	}
	return spareMax
}

// endSpare ends idle workers beyond the slots that nobody needs soon, or that take room.
func (a *Agent) endSpare(now time.Time) {
	if list := a.pool.takeSpare(now.Add(-spareFor)); len(list) > 0 {
		a.running.Go(func() { a.endWorkers(list) })
	}
}

func (a *Agent) toHub() hub {
	a.hubMu.RLock()
	defer a.hubMu.RUnlock()
	return a.hub
}

func (a *Agent) log(l proto.Log) {
	if len(l.Text) > proto.TextMax {
		l.Text = l.Text[:proto.TextMax]
	}
	a.toHub().publish(proto.VerbLog, l, nil)
}

// sendAsk reports what this node can run; it replaces the last report.
func (a *Agent) sendAsk() {
	// In order: an older report that came last would make the hub believe, for ever,
	// that no slot is free.
	a.asking.Lock()
	defer a.asking.Unlock()
	free, idle := a.pool.snapshot()
	bytes := a.room.read(a.work).memory
	var held []string
	for _, p := range a.allAreas() {
		held = append(held, p.store.List()...)
	}
	a.toHub().publish(proto.VerbAsk, proto.Ask{Free: free, Memory: bytes, Idle: idle,
		Digests: held[:min(len(held), proto.DigestsMax)]}, nil)
}

// sendBeat also ends workers that are no longer worth their memory.
func (a *Agent) sendBeat() {
	a.endSpare(time.Now())
	free, _ := a.pool.snapshot()
	bytes := a.room.read(a.work).memory
	b := proto.Beat{Free: free, Memory: bytes, Uptime: time.Since(a.began).Seconds(), Running: []uint64{}, Owner: a.owner.beatText(), Rolls: a.takesRolls()}
	if a.config.Kernel != nil {
		b.Kernel = a.config.Kernel()
	}
	if a.rolls != nil {
		b.Kernel.Applied = a.rolls.Applied()
	}
	a.mu.Lock()
	for fence := range a.leases {
		b.Running = append(b.Running, fence)
	}
	a.mu.Unlock()
	a.toHub().publish(proto.VerbBeat, b, nil)
}

// handleMessage processes one message of the hub. It does not block.
func (a *Agent) handleMessage(ctx context.Context, verb proto.Verb, message []byte) error {
	switch verb {
	case proto.VerbLease:
		return a.handleLease(message)
	case proto.VerbCancel:
		var c proto.Cancel
		if _, err := proto.Decode(message, &c); err != nil {
			return err
		}
		a.cancel(c.Fence)
	case proto.VerbRelease:
		var r proto.Release
		if _, err := proto.Decode(message, &r); err != nil {
			return err
		}
		a.releaseSession(r.Session)
	case proto.VerbForget:
		var f proto.Forget
		if _, err := proto.Decode(message, &f); err != nil {
			return err
		}
		if f.Object != 0 {
			a.forgetObject(f)
		} else {
			a.forgetData(f)
		}
	case proto.VerbResume:
		var r proto.Resume
		if _, err := proto.Decode(message, &r); err != nil {
			return err
		}
		a.resumeLease(r.Fence)
	case proto.VerbExec:
		var e proto.Exec
		if _, err := proto.Decode(message, &e); err != nil {
			return err
		}
		a.runExec(ctx, &e)
	case proto.VerbRoll:
		return a.takeRoll(message)
	default:
		return fmt.Errorf("the hub sent %q, which this agent does not support", verb)
	}
	return nil
}

func (a *Agent) handleLease(message []byte) error {
	l := &lease{ended: make(chan struct{})}
	raw, err := proto.Decode(message, &l.Lease)
	if err != nil {
		return err
	}
	l.args = append([]byte(nil), raw...)
	ctx, cancel := context.WithCancelCause(a.life)
	l.cancel, l.giveBack = func() { cancel(nil) }, func() { cancel(errOwner) }
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.leases[l.Fence] != nil {
		l.cancel()
		return nil
	}
	a.leases[l.Fence], l.epoch = l, a.epoch
	a.pool.open(&l.Lease)
	a.leasing.Add(1)
	go func() {
		defer a.leasing.Done()
		defer close(l.ended)
		defer l.cancel()
		a.call(ctx, l)
	}()
	return nil
}

func (a *Agent) cancel(fence uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.leases[fence]; l != nil {
		l.cancel()
	}
	a.ends.drop(func(v proto.Carried) bool { return v.Fence == fence })
}

// releaseSession ends everything that belongs to a session here. It does not block:
// the hub is sent Released when the output of the last worker was passed on.
func (a *Agent) releaseSession(session string) {
	if session == "" {
		return
	}
	var leases []*lease
	a.mu.Lock()
	workers := a.pool.releaseSession(session)
	a.ending++
	a.ends.drop(func(v proto.Carried) bool { return v.Session == session })
	for _, l := range a.leases {
		if l.Session == session {
			l.cancel()
			leases = append(leases, l)
		}
	}
	a.mu.Unlock()
	for _, p := range a.allAreas() {
		p.store.Unpin(session)
	}
	a.running.Go(func() {
		a.endWorkers(workers)
		for _, l := range leases {
			<-l.ended
		}
		a.toHub().publish(proto.VerbReleased, proto.Released{Session: session}, nil)
		a.mu.Lock()
		a.ending--
		a.mu.Unlock()
	})
}

// endWorkers returns when all have ended and their output was passed on. An idle worker is
// asked to end, because it may still have to write what stdio has buffered.
func (a *Agent) endWorkers(workers []*worker) {
	var ends sync.WaitGroup
	for _, w := range workers {
		ends.Go(func() {
			if w.busy.Load() == 0 {
				w.sendBye()
			} else {
				w.killAndWait()
			}
			a.pool.removeWorker(w)
		})
	}
	ends.Wait()
}

// dropExecs ends the programs of a connection that broke, with which their streams broke.
// Leases and workers stay.
func (a *Agent) dropExecs() {
	a.setLinked(false)
	a.mu.Lock()
	a.epoch++
	for _, x := range a.execs {
		x.cancel()
	}
	a.mu.Unlock()
}

// stopIdle makes the agent refuse new work and returns true, if it has no session, no
// program, and no worker that is ending.
func (a *Agent) stopIdle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.execs)+len(a.pool.sessionNames())+a.ending > 0 {
		return false
	}
	a.stopped = true
	return true
}

// beginLeave makes the agent refuse new work, ends the programs that do not move, and returns
// the number of those that do.
func (a *Agent) beginLeave() (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	for _, x := range a.execs {
		if x.movable && a.config.Hurry != nil {
			left++
		} else {
			x.cancel()
		}
	}
	return left
}

// stop ends everything and waits for it.
func (a *Agent) stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.dropExecs()
	a.endLife()
	workers := a.pool.releaseSession("")
	for _, w := range workers {
		w.process.kill()
	}
	for _, w := range workers {
		<-w.flushed
	}
	a.running.Wait()
	a.leasing.Wait()
}

// failedText bounds what goes into a message.
func failedText(f *failure) string {
	if len(f.text) > proto.TextMax {
		return f.text[:proto.TextMax]
	}
	return f.text
}

// cancelFailure says why ctx ended.
func cancelFailure(ctx context.Context) *failure {
	text := "the call was cancelled"
	if cause := context.Cause(ctx); errors.Is(cause, errOwner) {
		text = cause.Error()
	}
	return failf(proto.ReasonCancelled, uapi.ECancelled, "%s", text)
}

func asFailure(ctx context.Context, err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil:
		return cancelFailure(ctx)
	}
	return failf(proto.ReasonTransfer, uapi.EInternal, "%v", err)
}
