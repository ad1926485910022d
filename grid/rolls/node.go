// SPDX-License-Identifier: MIT

package rolls

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/internal/atomicfile"
)

// A Kernel is the running kernel of a node, as far as rolls need it.
type Kernel interface {
	Boot() string           // differs for each boot
	Clock() time.Duration   // since the boot, also while the machine sleeps
	Build() (string, error) // the kernel's build-id
	// Applied returns the updates that are loaded, with their figures.
	Applied() ([]roll.Applied, error)
	// Open returns an update. read returns the bytes of a package, which are not yet
	// verified; while they are fetched, it fails with roll.ErrLater.
	Open(s Spec, read func(digest string) ([]byte, error)) Update
}

// An Update is one update of a node's kernel. Stage, Load and the others are those of
// roll.Engine; each decides itself whether the operators of this node permit it.
type Update interface {
	roll.Engine
	Look() (View, error)
	// Package returns the digest of the roll's package for this kernel.
	Package() (string, error)
	// Content returns what names the package however often it is signed. It is known once
	// the package was fetched.
	Content() (string, error)
	// Fail records that a package with these contents failed here: a hub may not apply it again.
	Fail(content, why string) error
	// Unload unloads the module of a reverted update that nobody is inside.
	Unload() error
}

// A View is the state of an update in the kernel.
type View struct {
	State  State
	End    string   // why the kernel reverted it
	Stuck  string   // which calls on trial did not return in time; the kernel does not revert it
	Inside []string // tasks inside an update that leaves
	// Superseded: it was reverted because a newer update replaced it, as End says.
	Superseded bool
	// Off says why an update that was committed is not restored at boots. Harm: because boots
	// with it failed, and nothing but the update explains that.
	Off       string
	Harm      bool
	Health    roll.Health
	Functions []Function
}

// A State is that of an update in the kernel.
type State uint8

// States.
const (
	Absent  State = iota // its module is not loaded, or it was reverted and nobody is inside
	OnTrial              // applied, for whomever
	Kept                 // committed
	Drains               // reverted, and tasks are inside
)

// A Node carries out the rolls of a node's hub. Its loop owns everything in it.
type Node struct {
	dir    string
	kernel Kernel
	// running is the kernel's build-id, or "" if that is not known
	running string
	send    func(Report)
	fetch   func(ctx context.Context, digest string) (path string, err error)
	log     func(format string, args ...any)
	orders  chan Order
	rolls   map[string]*local // by name of the update
	spawn   func(func())      // runs it beside the loop; tests wait for it
	seen    *follower         // the hub's audit log
}

// A local is a roll on this node. saved is what the disk has.
type local struct {
	of       *Node
	spec     Spec
	node     *roll.Node
	update   Update
	saved    saved
	sent     time.Duration
	fits     string // the package for this kernel, once it is known
	booted   bool   // it was committed in an earlier boot
	waits    string // why orders are not obeyed
	off      string // why an update that was committed is not in force
	figures  []Function
	told     time.Duration // when figures were sent
	content  string        // of the package, from when it is loaded
	owes     string        // a sign of harm for which the package is not blocked yet
	lastLine string        // the last error, which is not repeated
}

// saved is what a node remembers of a roll.
type saved struct {
	Spec    Spec       `json:"spec"`
	Boot    string     `json:"boot"`
	Build   string     `json:"build,omitempty"` // the kernel's build-id
	Phase   roll.Phase `json:"phase"`
	Bad     string     `json:"bad,omitempty"`
	Refused string     `json:"refused,omitempty"`
	// Superseded says by what; this node does not take the roll up again.
	Superseded string `json:"superseded,omitempty"`
	// Content names the package after a boot, when its bytes are gone.
	Content string `json:"content,omitempty"`
	// Owes is a sign of harm for which the package could not be blocked yet.
	Owes string `json:"owes,omitempty"`
}

// Intervals of reports. The hub chooses only nodes that it heard a moment ago.
const (
	reportEvery = 250 * time.Millisecond
	restEvery   = 4 * time.Second // of a node that has reached its end
	// figuresEvery is how often a report has the figures of functions.
	figuresEvery = 2 * time.Second
)

// NewNode reads what a node remembers in dir, and creates dir if it is missing. send
// publishes a report, and may lose it; fetch brings a package onto this node.
func NewNode(dir string, k Kernel, send func(Report), fetch func(context.Context, string) (string, error), log func(string, ...any)) (*Node, error) {
	n := &Node{dir: dir, kernel: k, running: buildOf(k, log), send: send, fetch: fetch, log: log, orders: make(chan Order, 256), rolls: map[string]*local{}, spawn: func(do func()) { go do() }}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	n.seen, err = openFollower(dir)
	return n, err
}

// Take queues an order of the hub. It does not block: an order that finds no room is
// dropped, and comes again.
func (n *Node) Take(o Order) {
	select {
	case n.orders <- o:
	default:
	}
}

// Ready reports that orders reach a kernel.
func (n *Node) Ready() bool { return true }

// Run carries out rolls until ctx ends. Updates on trial then end with their leases.
func (n *Node) Run(ctx context.Context) {
	n.recall(ctx)
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-n.orders:
			n.take(ctx, o)
		case <-tick.C:
			n.tick()
		}
	}
}

// Applied returns the updates of this node's kernel; nil: none, or they cannot be read.
func (n *Node) Applied() []roll.Applied {
	list, _ := n.kernel.Applied() // without the module dynamos there are none
	return list
}

// recall continues the rolls of an earlier run of the agent.
func (n *Node) recall(ctx context.Context) {
	files, _ := filepath.Glob(filepath.Join(n.dir, "*"+extension)) // the pattern is valid
	for _, file := range files {
		var s saved
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err == nil {
			err = s.Spec.Check()
		}
		if err == nil && s.Spec.Name+extension != filepath.Base(file) {
			err = errors.New("it is of another update")
		}
		if err != nil {
			n.log("what this node remembers of a roll cannot be read: %s: %v", file, err)
			continue
		}
		l := n.open(ctx, s.Spec)
		l.resume(s)
		n.rolls[s.Spec.Name] = l
	}
}

// open begins a roll on this node.
func (n *Node) open(ctx context.Context, s Spec) *local {
	l := &local{of: n, spec: s}
	l.update = n.kernel.Open(s, n.reader(ctx))
	l.node = &roll.Node{Boot: n.kernel.Boot(), Engine: l, Lease: s.Lease, Fits: true}
	return l
}

// digest returns the package of the roll for this kernel, or "".
func (l *local) digest() string {
	if l.fits == "" {
		l.fits, _ = l.update.Package() // why there is none, Stage tells
	}
	return l.fits
}

// reader returns a function that reads a package. While it is fetched, which may take long,
// the function fails with roll.ErrLater, because the loop has other work.
func (n *Node) reader(ctx context.Context) func(digest string) ([]byte, error) {
	type fetched struct {
		path string
		err  error
	}
	var done chan fetched
	return func(digest string) ([]byte, error) {
		if done == nil {
			done = make(chan fetched, 1)
			to := done
			n.spawn(func() {
				path, err := n.fetch(ctx, digest)
				to <- fetched{path, err}
			})
		}
		select {
		case f := <-done:
			done = nil
			text, err := []byte(nil), f.err
			if err == nil {
				text, err = os.ReadFile(f.path)
			}
			if err != nil {
				err = fmt.Errorf("%w: the package cannot be fetched: %w", roll.ErrLater, err)
			}
			return text, err
		default:
			return nil, fmt.Errorf("%w: the package is being fetched", roll.ErrLater)
		}
	}
}

// buildOf returns a kernel's build-id, or "" if that is not known.
func buildOf(k Kernel, log func(string, ...any)) string {
	id, err := k.Build()
	if err != nil {
		log("the build-id of the kernel is not known: %v", err)
	}
	return id
}

// resume compares what was remembered with what the kernel does.
func (l *local) resume(s saved) {
	n := l.node
	l.saved = s
	n.Phase, n.Bad, n.Refused, n.Superseded = s.Phase, s.Bad, s.Refused, s.Superseded
	l.content, l.owes = s.Content, s.Owes
	if s.Boot != n.Boot {
		l.resumeBoot(s)
	} else if s.Phase >= roll.Loaded && s.Phase <= roll.Leaving {
		l.resumeAgent()
	}
	l.save()
}

// resumeBoot continues after a boot, which ended everything that was not committed.
func (l *local) resumeBoot(s saved) {
	n := l.node
	switch {
	case s.Phase == roll.Committed && (s.Build == "" || s.Build == l.of.running):
		l.booted = true
		return
	case s.Phase == roll.Reverted && n.Bad != "":
		return
	case s.Phase >= roll.Loaded && s.Phase < roll.Committed:
		l.harm("the machine ended while the update was loaded or on trial")
	}
	n.Phase, n.Refused = roll.None, "" // another kernel may run now
}

// resumeAgent continues after a restart of the agent.
func (l *local) resumeAgent() {
	v, err := l.update.Look()
	if err != nil {
		l.node.Refused = err.Error()
		return
	}
	switch v.State {
	case OnTrial:
		l.node.Phase = roll.Loaded // its lease is not known any more
		if err := l.update.Select(roll.Loaded, 0); err != nil {
			l.node.Refused = err.Error()
		}
	case Kept:
		l.node.Phase = roll.Committed
		l.tell(l.update.Commit()) // its policy may still have an end
	default:
		l.follow(v)
	}
}

// tell logs an error, once.
func (l *local) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != l.lastLine {
		l.of.log("%s: %s", l.spec.Name, text)
	}
	l.lastLine = text
}

// take is given an order of the hub.
func (n *Node) take(ctx context.Context, o Order) {
	l := n.rolls[o.Spec.Name]
	if l == nil || l.spec.ID != o.Spec.ID {
		if l = n.replace(ctx, l, o.Spec); l == nil {
			return
		}
	}
	if o.Order.Boot == "" { // it makes the roll known, and nothing else
		return
	}
	err := n.seen.follow(o.Audit)
	if err != nil && o.Order.Goal != roll.Reverted {
		l.distrust(err)
		return
	}
	if err == nil {
		l.mended()
	}
	l.node.Obey(n.kernel.Clock(), o.Order)
	l.save()
}

// distrust is what a node does with an order of a hub whose audit log does not continue what
// the node has seen: it begins nothing. A trial that has begun ends with its lease.
func (l *local) distrust(err error) {
	l.tell(err)
	l.waits = err.Error()
	if trust.Name(err) != "" && l.node.Phase < roll.Loaded && l.node.Refused == "" {
		l.node.Refused = l.waits
		l.save()
	}
}

// mended takes the refusal back when the hub shows a log that continues what was seen.
func (l *local) mended() {
	if l.waits != "" && l.node.Refused == l.waits {
		l.node.Refused = ""
	}
	l.waits = ""
}

// replace begins another roll of an update. If the one before is not over, it is ended
// first, and nil is returned until then.
func (n *Node) replace(ctx context.Context, old *local, s Spec) *local {
	if err := s.Check(); err != nil {
		n.log("the hub's roll of an update is refused: %v", err)
		return nil
	}
	if old == nil && len(n.rolls) >= rollsMax {
		n.log("the roll of %s is refused: this node knows %d already", s.Name, len(n.rolls))
		return nil
	}
	if old != nil && old.node.Phase >= roll.Loaded && old.node.Phase <= roll.Leaving && old.node.Phase != roll.Committed {
		now := n.kernel.Clock()
		old.node.Obey(now, roll.Order{Boot: old.node.Boot, Stamp: now, Goal: roll.Reverted})
		old.save()
		return nil
	}
	l := n.open(ctx, s)
	if old != nil && old.node.Phase == roll.Committed && old.off == "" && old.digest() != "" && old.digest() == l.digest() {
		l.node.Phase, l.content = roll.Committed, old.content
	}
	n.rolls[s.Name] = l
	l.save()
	return l
}

// tick ends leases, looks at the kernel, and reports.
func (n *Node) tick() {
	for _, l := range n.rolls {
		now := n.kernel.Clock()
		l.node.Tick(now)
		l.look()
		l.block()
		l.save()
		if every := l.every(); now-l.sent >= every || l.sent == 0 {
			l.sent = now
			seen := n.seen.at
			r := Report{ID: l.spec.ID, Report: l.node.Report(now), Knows: knowsLast, Seen: &seen}
			r.Report.Package = l.digest()
			if len(l.figures) > 0 && (now-l.told >= figuresEvery || l.told == 0) {
				l.told, r.Functions = now, l.figures
			}
			if why := cmp.Or(l.waits, l.off); why != "" {
				r.Report.Waits = why
			}
			n.send(r)
		}
	}
}

// every returns how often a roll is reported.
func (l *local) every() time.Duration {
	if n := l.node; n.Phase == roll.Committed || n.Phase == roll.Reverted || n.Refused != "" && n.Phase < roll.Loaded {
		return restEvery
	}
	return 0
}

// look notices what the kernel did by itself.
func (l *local) look() {
	if l.node.Phase < roll.Loaded || l.node.Phase == roll.Reverted {
		l.figures = nil
		return
	}
	v, err := l.update.Look()
	l.tell(err)
	if err != nil {
		return
	}
	l.node.Health, l.node.Inside, l.figures = v.Health, v.Inside, v.Functions
	committed := l.node.Phase == roll.Committed
	l.off = ""
	switch {
	case v.State == OnTrial && v.Stuck != "":
		l.tell(l.Revert()) // until it succeeds; without a lease no new call enters
		if l.node.Phase < roll.Leaving {
			l.harm(v.Stuck)
		}
	case v.State == OnTrial && l.node.Phase < roll.Leaving: // also if it was restored at a boot
	case v.State == Kept && committed:
		l.booted = false
	case v.State == Absent && committed && v.Harm:
		l.harm(v.Off)
	case v.State == Absent && committed && v.Off != "":
		l.off = v.Off
	case v.State == Absent && committed && l.booted && v.End == "":
		if l.of.kernel.Clock() > restoreTime {
			l.of.log("%s: it was committed, and did not come back after the boot: 'skep service status' says whether updates are restored", l.spec.Name)
			l.node.Phase = roll.Reverted
		}
	default:
		l.follow(v)
	}
}

// restoreTime is how long after a boot updates may come back.
const restoreTime = 10 * time.Minute

// follow records that the kernel, or root of this node, reverted the update.
func (l *local) follow(v View) {
	n := l.node
	if n.Phase != roll.Leaving && n.Phase != roll.Reverted {
		why := v.End
		switch {
		case v.State == Kept:
			l.harm("it was committed, and nobody of this roll ordered that")
			return
		case v.Superseded:
			n.Supersede(why)
			l.of.log("%s: %s", l.spec.Name, why)
		case why == "":
			l.harm("it is not in force any more")
		default:
			l.harm(why)
		}
	}
	if v.State == Absent && n.Phase == roll.Leaving {
		n.Drained()
		l.tell(l.update.Unload())
	}
}

// harm records a sign of harm, and that this node never takes the package again.
func (l *local) harm(why string) {
	l.node.Harm(why)
	l.of.log("%s: %s", l.spec.Name, why)
	l.owes = why
	l.block()
}

// block keeps hubs from applying a package again that failed here. What fails is tried
// again: the machine may have ended while the update ran, and its disk may be full.
func (l *local) block() {
	if l.owes == "" {
		return
	}
	err := error(nil)
	if l.content == "" { // a version of skep that did not store it had loaded the package
		l.content, err = l.update.Content()
	}
	if err == nil {
		err = l.update.Fail(l.content, l.owes)
	}
	if err == nil {
		l.owes = ""
		return
	}
	l.tell(fmt.Errorf("the failed package is not blocked on this node yet: %w", err))
}

// save stores what changed. Before the engine changes the kernel it has stored what it
// is about to do, so an error here is only told.
func (l *local) save() {
	n := l.node
	if err := l.store(saved{Spec: l.spec, Boot: n.Boot, Build: l.of.running, Phase: n.Phase, Bad: n.Bad, Refused: n.Refused, Superseded: n.Superseded,
		Content: l.content, Owes: l.owes}); err != nil {
		l.of.log("%s: %v", l.spec.Name, err)
	}
}

func (l *local) store(s saved) error {
	if reflect.DeepEqual(s, l.saved) {
		return nil
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = atomicfile.Write(filepath.Join(l.of.dir, l.spec.Name+extension), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("what this node does with the update cannot be stored: %w", err)
	}
	l.saved = s
	return nil
}

// intend stores a phase before it is entered.
func (l *local) intend(p roll.Phase) error {
	s := l.saved
	s.Spec, s.Boot, s.Build, s.Phase, s.Content = l.spec, l.node.Boot, l.of.running, max(p, s.Phase), l.content
	return l.store(s)
}

// Stage, Load, Select, Commit and Revert make local a roll.Engine.

// Stage verifies the package.
func (l *local) Stage() error { return l.logged("verified", l.update.Stage()) }

// Load loads the package's module.
func (l *local) Load() error {
	content, err := l.update.Content()
	if err == nil {
		l.content = content
		err = l.intend(roll.Loaded)
	}
	if err != nil {
		return err
	}
	return l.logged("loaded, for nobody", l.update.Load())
}

// Select changes who runs the update.
func (l *local) Select(p roll.Phase, until time.Duration) error {
	err := l.update.Select(p, until)
	if err == nil && p == l.node.Phase {
		return nil
	}
	return l.logged(fmt.Sprintf("in force: %v", p), err)
}

// Commit keeps the update.
func (l *local) Commit() error { return l.logged("committed", l.update.Commit()) }

// Revert takes the update back.
func (l *local) Revert() error { return l.logged("reverted", l.update.Revert()) }

func (l *local) logged(did string, err error) error {
	switch {
	case errors.Is(err, roll.ErrLater):
		l.tell(err)
	case err != nil:
		l.of.log("%s: refused: %v", l.spec.Name, err)
	default:
		l.of.log("%s: %s", l.spec.Name, did)
	}
	return err
}
