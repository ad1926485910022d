// SPDX-License-Identifier: MIT

package sched

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"skep/grid/label"
)

// Scheduler holds every node, session, call and lease. It is not safe for concurrent
// use.
type Scheduler struct {
	cfg      Config
	now      time.Time
	fence    Fence
	grants   uint64 // counts grants; orders nodes and sessions by last use
	nodes    []*node
	byNode   map[NodeID]*node
	open     index // of nodes
	sessions []*session
	bySess   map[SessionID]*session
	users    []*user // in the order of their first session
	calls    map[CallID]*call
	order    uint64  // order of the newest call
	ahead    int     // leases that wait at busy nodes
	inner    []*call // those of CallQueued.Inner, the oldest first
	wake     time.Time
	fresh    []*seat // seats left within Config.Hold
	out      []Action

	grantIdle func(tick bool) // takeIdle; a test replaces it by its reference
	steps     int             // steps of takeIdle, for tests
	looks     int             // nodes that grantOne looked at, for tests
}

type node struct {
	id      NodeID
	up      bool
	silent  bool
	away    bool      // its connection broke
	since   time.Time // it has been silent or away since
	offered bool      // its calls may begin elsewhere since then
	lost    bool      // it was silent for Config.Keep
	barred  bool
	drained bool
	heard   time.Time
	slots   int
	memory  uint64
	about   label.Node
	apart   bool
	backs   bool   // as in NodeUp.Callbacks
	used    uint64 // memory of the leases that run
	want    int    // slots that it asked for and that are not granted yet
	spare   uint64 // free memory of its last Ask, less the memory granted since
	last    uint64 // number of the last grant
	running []*lease
	extra   int // of running, without slots
	ahead   []*lease
	lends   []lend
	idle    map[Idle]int
	seats   []seat
	held    map[Digest]bool
	shown   map[work]bool // functions that it has completed

	inFree  bool // index.free has it
	inReady map[work]bool
}

// work is a function of a module. Usual durations are kept per work.
type work struct {
	module   Digest
	function uint32
}

type session struct {
	id     SessionID
	user   *user
	rank   int // its priority among the sessions of the user
	last   uint64
	runs   int           // leases that run
	fresh  int           // seats that it left within Config.Hold
	gain   int           // seats of others that it will get, less its seats that others will get
	served time.Duration // time of its ended leases and of seats reserved for it, raised after idle time
	done   time.Time     // end of its last call
	think  time.Duration // smoothed time from there to its next call
	closed bool
	on     label.Selector
	most   int // attempts of a call
	queue  queue
	live   map[CallID]*call
	times  map[work]time.Duration // smoothed duration

	kinds    map[kind]int
	kindLast int
}

type call struct {
	id      CallID
	order   uint64
	kind    int // number of its kind in the session
	session *session
	worker  Worker
	work    work
	memory  uint64
	only    NodeID // the node that it is bound to, or ""
	long    bool   // as in CallQueued
	backs   bool   // as in CallQueued.Callbacks
	once    string // as in CallQueued, or OnceWhy after CallOnce
	inner   bool   // as in CallQueued.Inner
	data    []Digest
	leases  []*lease
	since   time.Time // queued first
	grants  int
	deaths  int
	losses  int
	ends    []end
}

// end is a failure on a node, other than a lost connection.
type end struct {
	node   NodeID
	kind   Failure
	status int
	at     time.Time
}

type lease struct {
	Lease
	call    *call
	node    *node
	seat    *seat
	from    *session // if ahead: the session that will lose its seat to this lease
	turn    bool     // it may begin a new quantum
	found   bool     // when it was granted, a worker was idle for it
	granted time.Time
	started time.Time // when it was granted or, if it was ahead, when it got its slot
	seen    time.Time // when a beat last listed it
}

// OnceWhy follows the reason for which a call after CallOnce fails.
const OnceWhy = "; the call had called its master before, so it is not run again"

// New returns a scheduler without nodes.
func New(cfg Config) *Scheduler {
	span := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	count := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	span(&cfg.Silence, 12*time.Second)
	span(&cfg.Missing, 8*time.Second)
	if cfg.Keep == 0 {
		cfg.Keep = KeepDefault
	}
	span(&cfg.Offer, 1500*time.Millisecond)
	span(&cfg.Avoid, 10*time.Second)
	span(&cfg.Again, time.Second)
	span(&cfg.NoNode, 60*time.Second)
	span(&cfg.CopyFrom, 2*time.Second)
	span(&cfg.Quantum, time.Second)
	span(&cfg.Turn, cfg.Quantum/10)
	span(&cfg.Hold, 100*time.Millisecond)
	count(&cfg.Attempts, 4)
	count(&cfg.Alike, 2)
	count(&cfg.Losses, 32)
	count(&cfg.Copies, 2)
	s := &Scheduler{
		cfg:    cfg,
		byNode: map[NodeID]*node{},
		bySess: map[SessionID]*session{},
		calls:  map[CallID]*call{},
		open:   index{ready: map[work][]*node{}},
	}
	s.grantIdle = s.takeIdle
	return s
}

// StartFences makes the next fencing number greater than last. A hub that
// restarts calls it with the greatest number it may have given.
func (s *Scheduler) StartFences(last Fence) {
	s.fence = max(s.fence, last)
}

// Handle processes one event and returns the actions that follow from it, in order. A
// time earlier than that of a former event is replaced by the latest one seen.
func (s *Scheduler) Handle(now time.Time, ev Event) []Action {
	if now.After(s.now) {
		s.now = now
	}
	s.out = nil
	switch e := ev.(type) {
	case NodeUp:
		s.nodeUp(e)
	case NodeAway:
		s.nodeAway(e.Node)
	case NodeDown:
		s.nodeDown(e.Node)
	case NodeBar:
		s.barNode(s.byNode[e.Node])
	case NodeDrain:
		s.drainNode(s.byNode[e.Node], e)
	case Ask:
		s.handleAsk(e)
	case Beat:
		s.handleBeat(e)
	case SessionOpen:
		s.sessionOpen(e)
	case SessionClose:
		s.sessionClose(e.Session)
	case UserSet:
		s.userOf(e.User).set(s.now, e)
	case CallQueued:
		s.callQueued(e)
	case CallCancel:
		s.dropCall(s.calls[e.Call])
	case CallOnce:
		if c := s.calls[e.Call]; c != nil {
			c.once = OnceWhy
		}
	case Lend:
		s.setLend(e)
	case CallDone:
		s.callDone(e)
	case CallFailed:
		s.callFailed(e)
	case Tick:
		s.handleTick()
	case Slept:
		s.handleSlept(e.For)
	case Woken:
	default:
		panic(fmt.Sprintf("sched: unknown event %T", ev))
	}
	_, tick := ev.(Tick)
	s.assignCalls(tick)
	return s.out
}

// Current reports whether the node holds a lease of the call with this number, so
// that the owner can refuse a transfer before its first byte.
func (s *Scheduler) Current(id NodeID, c CallID, f Fence) bool {
	return s.findLease(id, c, f) != nil
}

// Waits reports whether a call has a lease, and all its leases wait for their seats.
func (s *Scheduler) Waits(id CallID) bool {
	c := s.calls[id]
	return c != nil && len(c.leases) > 0 && !slices.ContainsFunc(c.leases, func(l *lease) bool { return !l.Ahead })
}

// Waiting returns how many leases of a node wait for a seat there: those of one session, or
// of all if session is the zero value.
func (s *Scheduler) Waiting(id NodeID, session SessionID) (count int) {
	n := s.byNode[id]
	if n == nil {
		return 0
	}
	for _, l := range n.ahead {
		if session == 0 || l.call.session.id == session {
			count++
		}
	}
	return count
}

func (s *Scheduler) emit(a Action) { s.out = append(s.out, a) }

func (s *Scheduler) findLease(id NodeID, c CallID, f Fence) *lease {
	if c := s.calls[c]; c != nil {
		for _, l := range c.leases {
			if l.Fence == f && l.node.id == id {
				return l
			}
		}
	}
	return nil
}

// findHeld finds the lease that a node's message names. It refuses a lease that is not
// current.
func (s *Scheduler) findHeld(id NodeID, c CallID, f Fence) *lease {
	l := s.findLease(id, c, f)
	if l == nil {
		s.emit(Refuse{id, c, f})
	}
	return l
}

func (s *Scheduler) nodeUp(e NodeUp) {
	n := s.byNode[e.Node]
	if n == nil {
		n = &node{id: e.Node}
		s.byNode[e.Node] = n
		at := sort.Search(len(s.nodes), func(i int) bool {
			return s.nodes[i].id > e.Node
		})
		s.nodes = slices.Insert(s.nodes, at, n)
	} else if e.Back && n.up && n.slots == e.Slots && len(n.all()) > 0 {
		s.nodeBack(n, e)
		return
	} else {
		s.loseNode(n, "the node started again")
	}
	s.open.forget(n)
	n.up, n.away, n.silent, n.lost, n.heard = true, false, false, false, s.now
	n.slots, n.memory, n.about, n.apart = max(e.Slots, 0), e.Memory, e.About, e.Apart
	n.backs = e.Callbacks
	n.idle = map[Idle]int{}
	n.seats = make([]seat, n.slots)
	n.held = map[Digest]bool{}
	n.shown = map[work]bool{}
	s.open.update(n)
}

// nodeDown forgets a node. A barred node is kept, because it stays barred when it
// connects again.
func (s *Scheduler) nodeDown(id NodeID) {
	n := s.byNode[id]
	if n == nil {
		return
	}
	n.up = false
	s.loseNode(n, "the connection to its node broke")
	s.open.update(n)
	if n.barred {
		return
	}
	s.open.forget(n)
	delete(s.byNode, id)
	s.nodes = slices.DeleteFunc(s.nodes, func(o *node) bool { return o == n })
}

func (s *Scheduler) barNode(n *node) {
	if n == nil || n.barred {
		return
	}
	n.barred = true
	leases := n.all()
	s.loseNode(n, "its node failed a safety check")
	for _, l := range leases { // after the reason: the first of both ends the lease
		s.emit(Cancel{l.Lease})
	}
}

// drainNode moves the calls of a node. That counts against none of them.
func (s *Scheduler) drainNode(n *node, e NodeDrain) {
	if n == nil {
		return
	}
	n.drained = e.On
	s.open.update(n)
	if !e.On {
		return
	}
	waits := slices.Clone(n.ahead) // removeLease lets the first of them run
	for _, l := range n.all() {
		if s.mayMove(l) && (e.Move || slices.Contains(waits, l)) {
			s.removeLease(l)
			s.requeueCall(l, e.Why, true)
			s.emit(Cancel{l.Lease}) // after the reason: the first of both ends the lease
		}
	}
}

// mayMove reports whether the program lets a call run on other nodes, and if it chose nodes,
// whether another of them can take it.
func (s *Scheduler) mayMove(l *lease) bool {
	c := l.call
	if c.once != "" {
		return false
	}
	if c.only != "" || c.session.on.IsAll() {
		return c.only == ""
	}
	return slices.ContainsFunc(s.nodes, func(o *node) bool { return o != l.node && o.takes() && o.slots > 0 && c.mayRun(o) })
}

// noteHeard records that a node sent a message. It returns nil for a node that has not
// sent its hello.
func (s *Scheduler) noteHeard(id NodeID) *node {
	n := s.byNode[id]
	if n == nil || !n.up {
		return nil
	}
	n.heard = s.now
	if n.silent {
		s.takeBack(n)
	}
	return n
}

func (s *Scheduler) handleAsk(e Ask) {
	n := s.noteHeard(e.Node)
	if n == nil {
		return
	}
	n.want, n.spare = max(e.Slots, 0), e.Memory
	n.held = make(map[Digest]bool, len(e.Held))
	for _, d := range e.Held {
		n.held[d] = true
	}
	n.idle = make(map[Idle]int, len(e.Idle))
	for _, w := range e.Idle {
		n.idle[w]++
	}
	s.open.update(n)
}

// handleBeat compares the leases that the node lists with those granted to it.
func (s *Scheduler) handleBeat(e Beat) {
	n := s.noteHeard(e.Node)
	if n == nil {
		return
	}
	known := make(map[Fence]*lease)
	for _, l := range n.all() {
		known[l.Fence] = l
	}
	for _, f := range e.Leases {
		if l := known[f]; l != nil {
			l.seen = s.now
		} else {
			s.emit(Cancel{Lease{Fence: f, Node: n.id}})
		}
	}
	for _, l := range n.all() {
		if s.now.Sub(l.seen) >= s.cfg.Missing {
			s.removeLease(l)
			s.loseLease(l, "its node does not know of it")
		}
	}
	// An Ask, or the leases that it was answered with, may have been lost.
	if free := min(e.Free, n.slots); len(n.all())+len(e.Leases) == 0 && n.want < free {
		n.want = free
		s.open.update(n)
	}
}

func (s *Scheduler) sessionOpen(e SessionOpen) {
	if s.bySess[e.Session] != nil {
		return
	}
	ss := &session{
		id:    e.Session,
		user:  s.userOf(e.User),
		rank:  e.Priority,
		on:    e.On,
		most:  cmp.Or(e.Attempts, s.cfg.Attempts),
		live:  map[CallID]*call{},
		times: map[work]time.Duration{},
		kinds: map[kind]int{},
	}
	s.bySess[e.Session] = ss
	s.sessions = append(s.sessions, ss)
}

func (s *Scheduler) sessionClose(id SessionID) {
	ss := s.bySess[id]
	if ss == nil {
		return
	}
	calls := make([]*call, 0, len(ss.live))
	for _, c := range ss.live {
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b *call) int { return int(a.order) - int(b.order) })
	for _, c := range calls {
		s.dropCall(c)
	}
	ss.closed = true
	delete(s.bySess, id)
	s.sessions = slices.DeleteFunc(s.sessions, func(o *session) bool { return o == ss })
}

func (s *Scheduler) callQueued(e CallQueued) {
	ss := s.bySess[e.Session]
	if ss == nil || s.calls[e.Call] != nil {
		return
	}
	s.order++
	c := &call{
		id:      e.Call,
		order:   s.order,
		session: ss,
		worker:  e.Worker,
		work:    work{e.Worker.Module, e.Function},
		memory:  e.Memory,
		only:    e.Node,
		long:    e.Long,
		backs:   e.Callbacks,
		inner:   e.Inner,
		once:    e.Once,
		data:    e.Data,
		since:   s.now,
	}
	c.kind = ss.kindOf(c)
	s.noteUser(ss.user)
	s.noteWant(ss)
	s.calls[c.id] = c
	ss.live[c.id] = c
	ss.queue.add(c)
	if c.inner {
		s.inner = append(s.inner, c)
	}
}

// dropCall ends a call without telling its master. It emits Cancel for the remaining
// leases before the caller emits the action that ends the call, while the owner still
// knows it.
func (s *Scheduler) dropCall(c *call) {
	if c == nil {
		return
	}
	for _, l := range slices.Clone(c.leases) {
		s.emit(Cancel{l.Lease})
		s.removeLease(l)
	}
	c.session.queue.remove(c)
	delete(c.session.live, c.id)
	delete(s.calls, c.id)
	s.dropInner(c)
}

func (s *Scheduler) callDone(e CallDone) {
	n := s.noteHeard(e.Node)
	l := s.findHeld(e.Node, e.Call, e.Fence)
	if l == nil {
		return
	}
	c := l.call
	s.learnDuration(n, l, e.Duration)
	s.removeLease(l)
	n.idle[c.idleWorker()]++
	c.session.done = s.now
	s.dropCall(c)
	s.emit(Commit{l.Lease})
}

// learnDuration updates the function's usual duration. A new value has a weight of one
// quarter.
func (s *Scheduler) learnDuration(n *node, l *lease, d time.Duration) {
	if d <= 0 {
		d = s.now.Sub(l.started)
	}
	times, w := l.call.session.times, l.call.work
	if old, ok := times[w]; ok {
		d = old + (d-old)/4
	}
	times[w] = d
	n.shown[w] = true
	s.open.update(n)
}

func (s *Scheduler) callFailed(e CallFailed) {
	n := s.noteHeard(e.Node)
	l := s.findHeld(e.Node, e.Call, e.Fence)
	if l == nil {
		return
	}
	c := l.call
	s.removeLease(l)
	switch e.Kind {
	case Final:
		s.fail(c, Fatal, e.Why)
	case Returned:
		s.requeueCall(l, e.Why, false)
	case Unsafe:
		s.requeueCall(l, e.Why, false)
		s.barNode(n)
	default:
		s.countFailure(l, e)
	}
}

// countFailure counts a failure against its call.
func (s *Scheduler) countFailure(l *lease, e CallFailed) {
	c := l.call
	c.deaths++
	c.ends = append(c.ends, end{e.Node, e.Kind, e.Status, s.now})
	alike := map[NodeID]bool{}
	for _, d := range c.ends {
		if d.kind == WorkerDied && d.status == e.Status {
			alike[d.node] = true
		}
	}
	switch {
	case e.Kind == WorkerDied && len(alike) >= s.cfg.Alike:
		s.fail(c, Exhausted, fmt.Sprintf("%s; the same on %d nodes", e.Why, len(alike)))
	case c.deaths >= c.session.most:
		s.fail(c, Exhausted, fmt.Sprintf("%s; attempt %d was the last", e.Why, c.deaths))
	default:
		s.requeueCall(l, e.Why, false)
	}
}

func (s *Scheduler) fail(c *call, r Reason, why string) {
	s.dropCall(c)
	s.emit(FailCall{c.id, c.session.id, r, why})
}

// loseNode revokes every lease of a node.
func (s *Scheduler) loseNode(n *node, why string) {
	for _, l := range n.all() {
		s.removeLease(l)
		s.loseLease(l, why)
	}
	for i := range n.seats { // no session has a seat that is gone
		s.clearFresh(&n.seats[i])
	}
	n.want = 0
	s.open.update(n)
}

// loseLease requeues a call whose lease was lost, or fails it after too many losses.
func (s *Scheduler) loseLease(l *lease, why string) {
	c := l.call
	c.losses++
	if c.losses >= s.cfg.Losses {
		s.fail(c, Exhausted, fmt.Sprintf("%s; %d nodes were lost while they ran it", why, c.losses))
		return
	}
	s.requeueCall(l, why, false)
}

// requeueCall puts a call back in its place in the queue, unless a copy still runs.
func (s *Scheduler) requeueCall(l *lease, why string, moved bool) {
	if once := l.call.once; once != "" {
		s.fail(l.call, Exhausted, why+once)
		return
	}
	s.emit(Requeued{l.Lease, why, moved})
	if len(l.call.leases) == 0 {
		l.call.session.queue.add(l.call)
	}
}

// removeLease removes a lease from its call and its node. A lease that waits for its
// seat starts to run.
func (s *Scheduler) removeLease(l *lease) {
	drop := func(list []*lease) []*lease {
		return slices.DeleteFunc(list, func(o *lease) bool { return o == l })
	}
	n, c := l.node, l.call
	c.leases = drop(c.leases)
	lent := n.endLend(l.Fence)
	if l.Ahead {
		n.ahead = drop(n.ahead)
		s.ahead--
		l.endWait()
	} else {
		n.running = drop(n.running)
		n.used -= c.memory
		if l.Extra {
			n.extra--
		} else {
			s.leaveSeat(l)
		}
	}
	if l.Extra || lent { // it visits all nodes
		s.countBorrowed()
	}
	s.open.update(n)
}

// handleSlept takes a time out of all silences, and out of those in which calls fit nowhere.
func (s *Scheduler) handleSlept(d time.Duration) {
	shift := func(t *time.Time) {
		if *t = t.Add(d); t.After(s.now) {
			*t = s.now
		}
	}
	for _, n := range s.nodes {
		shift(&n.heard)
		shift(&n.since)
		for _, l := range n.all() {
			shift(&l.seen)
		}
	}
	for _, c := range s.calls {
		shift(&c.since)
	}
}

func (s *Scheduler) handleTick() {
	for _, n := range slices.Clone(s.nodes) { // nodeDown removes some
		if n.up && !n.away && !n.silent && s.now.Sub(n.heard) >= s.cfg.Silence {
			n.silent, n.since, n.offered = true, s.now, false
			n.want = 0
			s.emit(MarkSilent{n.id})
			s.open.update(n)
		}
		s.watchAway(n)
	}
	s.failUnfit()
}

// failUnfit fails waiting calls that no node can run. If there are no nodes, the calls go on
// waiting.
func (s *Scheduler) failUnfit() {
	if _, any := s.mostMemory(label.Selector{}); !any {
		return
	}
	for _, ss := range s.sessions {
		if ss.queue.len() == 0 {
			continue
		}
		most, any := s.mostMemory(ss.on)
		for _, c := range ss.queue.all() {
			if why := s.whyUnfit(c, most, any); why != "" && len(c.leases) == 0 && s.now.Sub(c.since) >= s.cfg.NoNode {
				s.fail(c, NoFit, why)
			}
		}
	}
}

// mostMemory returns the memory of the largest node that is there and chosen, if there is any.
func (s *Scheduler) mostMemory(on label.Selector) (most uint64, any bool) {
	for _, n := range s.nodes {
		if n.isUsable() && n.slots > 0 && on.Matches(&n.about) {
			most, any = max(most, n.memory), true
		}
	}
	return most, any
}

// whyUnfit returns why no node can run a call, or nothing.
func (s *Scheduler) whyUnfit(c *call, most uint64, any bool) string {
	o := s.byNode[c.only]
	switch {
	case c.only != "" && (o == nil || !o.isUsable()):
		return "the call is bound to a node that is not up"
	case c.only != "" && !c.session.on.Matches(&o.about):
		return fmt.Sprintf("the call is bound to a node that does not match %s", c.session.on)
	case !any:
		return fmt.Sprintf("no node that is up matches %s", c.session.on)
	case c.session.user.id != "" && !slices.ContainsFunc(s.nodes, func(o *node) bool { return o.isUsable() && c.mayRun(o) }):
		return "no node that is up keeps users apart: update the agents of the nodes"
	case c.backs && !slices.ContainsFunc(s.nodes, func(o *node) bool { return o.isUsable() && c.mayRun(o) }):
		return "no node that is up and may run the call passes on what it calls in its master: update the agents of the nodes"
	case c.inner && !slices.ContainsFunc(s.nodes, func(o *node) bool { return c.mayRun(o) && o.mayGetRoom(c) }):
		return "on each node that may run the call, calls that wait for others hold the memory that it needs"
	case c.memory > most:
		return fmt.Sprintf("the call needs %d bytes of memory and the largest node gives %d", c.memory, most)
	}
	return ""
}

func (n *node) isUsable() bool { return n.up && !n.away && !n.silent && !n.barred }

// takes reports whether the node may get work.
func (n *node) takes() bool { return n.isUsable() && !n.drained }

func (n *node) all() []*lease {
	return append(slices.Clone(n.running), n.ahead...)
}
