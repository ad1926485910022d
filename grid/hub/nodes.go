// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"skep/dynamos/update/roll"
	"skep/grid/engine"
	"skep/grid/label"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/cli"
	"skep/internal/lockdep"
)

// A node is the hub's record of one agent.
type node struct {
	quota *quota // of results that it sends

	// Hub.mu
	info     NodeInfo // whose ID stays as it is
	boot     string
	conn     net.Conn // of its engine connection; the newest counts
	ready    bool     // its hello on conn was accepted
	leaving  net.Conn // the one on which it said that it shuts down and waits for its programs
	releases bool     // it answers Release
	rolls    bool     // it takes part in rolls of kernel updates
	holds    bool     // its agent knows Exec.Update
	programs bool     // and Lease.Exec
	lasting  bool     // and that such a program may be the operator's, with streams that last
	data     bool     // and Lease.Data
	objects  bool     // and Worker.Object
	hubs     bool     // and proto.Hubs
	beats    uint64
	leases   int
	adopted  map[sched.Fence]*adopted // those of Hub.adopted that it has; nil until the first
}

// Limits, so that no node can take all of the hub's memory.
const (
	slotsMax = 4096
	nodesMax = 10000
)

// serveEngine connects a node to the engine until the connection ends. An older connection of
// the same node is stale and is closed first.
func (h *Hub) serveEngine(id string, c net.Conn) {
	quota := h.cfg.Quotas.ofNode(h.roster.name(id))
	h.mu.Lock()
	n := h.nodes[id]
	if n == nil {
		if len(h.nodes) >= nodesMax {
			h.mu.Unlock()
			c.Close()
			return
		}
		n = &node{info: NodeInfo{ID: id, State: NodeDown}, quota: quota}
		h.nodes[id] = n
	}
	old := n.conn
	n.conn, n.ready = c, false
	h.mu.Unlock()
	if old != nil {
		old.Close()
	}
	err := h.engine.ServeConn(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.conn != c {
		return
	}
	n.conn = nil
	h.log.Debug("a node's connection ended", "node", id, "error", err)
	h.nodeAway(n)
}

// nodeAway is called with the lock held. A node with leases may come back to them; one that said
// that it ends does not.
func (h *Hub) nodeAway(n *node) {
	lockdep.AssertHeld(&h.mu)
	stays := n.info.State == NodeUp || n.info.State == NodeSilent || n.info.State == NodeAway
	if n.leases == 0 || !stays || h.cfg.Sched.Keep < 0 {
		h.nodeGone(n)
		return
	}
	n.ready = false
	h.setState(n, NodeAway, "")
	h.handleEvent(sched.NodeAway{Node: sched.NodeID(n.info.ID)})
	for _, e := range h.loseAdopted(n, "the connection to its node broke", calledKept) {
		h.handleEvent(e)
	}
	h.endExecs(n, otherExecs, "the connection to the node broke")
	h.dropReleases(n)
}

// nodeGone is called with the lock held.
func (h *Hub) nodeGone(n *node) {
	lockdep.AssertHeld(&h.mu)
	n.ready = false
	if n.info.State == NodeUp || n.info.State == NodeSilent || n.info.State == NodeAway {
		h.setState(n, NodeDown, "")
	}
	h.handleEvent(sched.NodeDown{Node: sched.NodeID(n.info.ID)})
	for _, e := range h.loseAdopted(n, "the connection to its node broke", noneKept) {
		h.handleEvent(e)
	}
	h.endExecs(n, allExecs, "the connection to the node broke")
	h.dropReleases(n)
}

const stopIn = time.Second // a removed node hears why

// RemoveNode requeues a node's calls and bars its identity. The node is notified, so that its
// agent ends; one that is not connected is refused when it connects.
func (h *Hub) RemoveNode(name string) error {
	id, err := h.roster.remove(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[id]
	if n == nil {
		return nil
	}
	if c := n.conn; c != nil {
		if err := h.publish(id, proto.VerbStop, proto.Stop{Text: errRemoved.Error()}, nil); err != nil {
			h.log.Warn("a node was not told that it was removed", "node", n.info.Name, "error", err)
		}
		time.AfterFunc(stopIn, func() { c.Close() })
		n.conn = nil
	}
	h.nodeGone(n)
	delete(h.nodes, id)
	return nil
}

// drainedWhy is told of each call that a drained node gives to others.
const drainedWhy = "its node is drained"

// DrainNode gives a node no more work, also over restarts of the hub, or reopens it. What
// has not begun there goes to others. What runs there goes on, or with DrainMove begins anew
// elsewhere, but programs and calls that are bound to the node.
func (h *Hub) DrainNode(name string, how Drain) error {
	on, move := how != DrainEnd, how == DrainMove
	id, err := h.roster.drain(name, on)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.nodes[id]; n != nil {
		n.info.Drained = on
		h.handleEvent(sched.NodeDrain{Node: sched.NodeID(id), On: on, Move: move, Why: drainedWhy})
		if move {
			go h.leaveNode(id)
			for _, e := range h.loseAdopted(n, drainedWhy, noneKept) {
				h.handleEvent(e)
			}
		}
		h.emit(Event{Type: "node", State: n.info.State, Node: id, Name: n.info.Name, Substrate: n.info.Substrate, Text: n.info.Problem})
	}
	return nil
}

func (h *Hub) setState(n *node, state, problem string) {
	lockdep.AssertHeld(&h.mu)
	if n.info.State == state && n.info.Problem == problem {
		return
	}
	n.info.State, n.info.Problem = state, problem
	h.emit(Event{Type: "node", State: state, Node: n.info.ID, Name: n.info.Name,
		Substrate: n.info.Substrate, Text: problem})
}

// handleMessage processes a node's message. The engine lets each node publish only under its
// own id, but the contents are untrusted. They are parsed, and data is stored, before the hub
// is locked.
func (h *Hub) handleMessage(m *nats.Msg) {
	id, verb, ok := proto.SplitSubject(m.Subject)
	if !ok {
		return
	}
	r, err := h.read(id, verb, m)
	if r.result != nil {
		defer h.discardResult(r.result)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLook() // the ticker may come later
	n := h.nodes[id]
	if n == nil || n.conn == nil || h.closed {
		return
	}
	n.info.LastSeen = h.cfg.Now()
	if verb != proto.VerbHello && !n.ready {
		return // it must send hello first; its client does so at each connect
	}
	if err == nil {
		err = r.take(n)
	}
	if err != nil {
		h.log.Warn("a node's message was dropped", "node", n.info.Name, "verb", verb, "error", err)
	}
}

// A report is a message as read. take processes it and is called with the lock held, if at all.
type report struct {
	take   func(*node) error
	result *inlineResult // that came with it
}

func (h *Hub) read(id string, verb proto.Verb, m *nats.Msg) (report, error) {
	switch verb {
	case proto.VerbHello:
		return h.readHello(id, m)
	case proto.VerbBeat:
		return decode(m.Data, h.handleBeat)
	case proto.VerbAsk:
		return decode(m.Data, h.handleAsk)
	case proto.VerbDone:
		return h.readDone(id, m.Data)
	case proto.VerbFailed:
		return decode(m.Data, h.handleFailed)
	case proto.VerbLog:
		return decode(m.Data, h.logLine)
	case proto.VerbRoll:
		return h.readRoll(id, m)
	case proto.VerbReleased:
		return decode(m.Data, h.handleReleased)
	case proto.VerbLeave:
		return h.readLeave(m)
	}
	return report{}, fmt.Errorf("the verb is unknown")
}

func decode[T any](data []byte, f func(*node, *T) error) (report, error) {
	var v T
	_, err := proto.Decode(data, &v)
	return report{take: func(n *node) error { return f(n, &v) }}, err
}

// readHello accepts a malformed hello too, so that it is answered.
func (h *Hub) readHello(id string, m *nats.Msg) (report, error) {
	var v proto.Hello
	_, err := proto.Decode(m.Data, &v)
	name := h.roster.name(id)
	return report{take: func(n *node) error {
		h.handleHello(n, name, m.Reply, &v, err)
		return nil
	}}, nil
}

// handleHello is answered only on the node's own inbox: the hub may publish anywhere,
// so a node must not choose where.
func (h *Hub) handleHello(n *node, name, reply string, v *proto.Hello, err error) {
	lockdep.AssertHeld(&h.mu)
	if !strings.HasPrefix(reply, engine.InboxPrefix(n.info.ID)+".") {
		return
	}
	w := proto.Welcome{Revision: proto.Revision, Version: h.cfg.Version}
	if err == nil {
		if w.Problem = h.admitNode(n, name, v); w.Problem == nil {
			w.Revision, _ = proto.CommonRevision(proto.Revision, v.Revision)
			w.Ended = h.endedOf(v.Sessions)
			w.Hubs = h.otherHubs()
		}
	} else {
		w.Problem = &proto.Problem{Code: proto.ProblemRequest, Text: "the hub cannot read this node's hello: update the older skep"}
	}
	b, err := proto.Encode(w, nil)
	if err == nil {
		err = h.nats.Publish(reply, b)
	}
	if err != nil {
		h.log.Warn("a hello was not answered", "node", n.info.ID, "error", err)
	}
}

// admitNode admits a node, or returns why not.
func (h *Hub) admitNode(n *node, name string, v *proto.Hello) *proto.Problem {
	if _, p := proto.CommonRevision(proto.Revision, v.Revision); p != nil {
		h.setState(n, NodeDown, p.Text)
		return p
	}
	if v.Slots < 0 || v.Slots > slotsMax || v.CPUs < 0 || len(v.Name) > proto.NameMax {
		return &proto.Problem{Code: proto.ProblemRequest, Text: "the node's hello has numbers out of range"}
	}
	if err := label.Check(v.Labels); err != nil {
		return &proto.Problem{Code: proto.ProblemRequest, Text: err.Error()}
	}
	i := &n.info
	i.Labels = v.Labels
	i.Name, i.Version, i.OS, i.System = name, cleanText(v.Version), cleanText(v.OS), cleanText(v.System)
	i.Substrate, i.CPUs, i.Memory, i.Slots, i.Free = cleanText(v.Substrate), v.CPUs, v.Memory, v.Slots, v.Slots
	i.Confined, i.Open = cleanText(v.Confined), cleanText(v.Open)
	i.Moves = v.Moves
	i.Drained = h.roster.isDrained(i.ID)
	back, fences := n.boot == v.Boot && v.Boot != "", fencesOf(v.Carried)
	if !back {
		h.endExecs(n, allExecs, "the node's agent started again")
	} else if n.ready {
		h.endExecs(n, otherExecs, "the node's agent connected again")
	}
	n.ready, n.boot, n.releases, n.rolls, n.holds, n.programs, n.lasting, n.data, n.objects, n.hubs = true, v.Boot, v.Releases, v.Rolls, v.Holds, v.Programs, v.Lasting, v.Data, v.Objects, v.Hubs
	if i.State == NodeBarred {
		return &proto.Problem{Code: proto.ProblemRequest, Text: "the hub gives this node no work, for it failed a safety check (" + i.Problem + "): repair it, then restart the hub"}
	}
	h.setState(n, NodeUp, "")
	h.handleEvent(sched.NodeUp{Node: sched.NodeID(i.ID), Slots: v.Slots, Memory: v.Memory, About: *i.About(), Apart: v.Apart, Callbacks: v.Callbacks, Back: back, Leases: fences})
	h.handleEvent(sched.NodeDrain{Node: sched.NodeID(i.ID), On: i.Drained, Why: drainedWhy})
	kept := func(f sched.Fence, _ *adopted) bool { return back && slices.Contains(fences, f) }
	for _, e := range h.loseAdopted(n, "the node's agent connected again", kept) {
		h.handleEvent(e)
	}
	h.offerCarried(n, v.Carried)
	if h.back.open && h.allBack() {
		h.queueWaiting()
	}
	return nil
}

// endedOf returns those of a node's sessions that ended while it was away.
func (h *Hub) endedOf(sessions []string) (ended []string) {
	live := map[string]bool{}
	for _, m := range h.masters {
		live[m.key] = true
	}
	for key := range h.back.keys {
		live[key] = true
	}
	for _, key := range sessions {
		if !live[key] {
			ended = append(ended, key)
		}
	}
	return ended
}

// cleanText bounds text of a node and takes control characters out of it.
func cleanText(s string) string {
	return cli.CleanText(s[:min(len(s), 128)])
}

// cleanTexts bounds a list of a node. The hub keeps a list of its own.
func cleanTexts(list []string) (clean []string) {
	for _, s := range list[:min(len(list), proto.KernelMax)] {
		clean = append(clean, cleanText(s))
	}
	return clean
}

// cleanApplied bounds the updates of a node.
func cleanApplied(list []roll.Applied) (clean []roll.Applied) {
	room := roll.FiguresMax
	for _, a := range list[:min(len(list), proto.KernelMax)] {
		c := roll.Applied{Name: cleanText(a.Name), State: cleanText(a.State), End: cleanText(a.End), Advised: a.Advised, Left: max(a.Left, 0)}
		for _, f := range a.Functions[:min(len(a.Functions), room)] {
			f.Symbol = cleanText(f.Symbol)
			c.Functions = append(c.Functions, f)
		}
		room -= len(c.Functions)
		clean = append(clean, c)
	}
	return clean
}

func (h *Hub) handleBeat(n *node, v *proto.Beat) error {
	lockdep.AssertHeld(&h.mu)
	if len(v.Running) > 4*slotsMax {
		return fmt.Errorf("%d leases in a heartbeat", len(v.Running))
	}
	h.noteHeard(n)
	n.beats++
	n.info.Free = min(max(v.Free, 0), slotsMax)
	n.info.Owner, n.rolls = cleanText(v.Owner), v.Rolls
	n.info.Kernel = proto.Kernel{Updates: cleanTexts(v.Kernel.Updates), O2G: v.Kernel.O2G, Lent: cleanTexts(v.Kernel.Lent), Applied: cleanApplied(v.Kernel.Applied)}
	h.handleEvent(sched.Beat{Node: sched.NodeID(n.info.ID), Leases: h.hearAdopted(n, v.Running), Free: n.info.Free})
	return nil
}

func (h *Hub) handleAsk(n *node, v *proto.Ask) error {
	lockdep.AssertHeld(&h.mu)
	if v.Free < 0 || len(v.Digests) > proto.DigestsMax || len(v.Idle) > proto.IdleMax {
		return fmt.Errorf("a request out of range")
	}
	h.noteHeard(n)
	n.info.Free = min(v.Free, slotsMax)
	ev := sched.Ask{Node: sched.NodeID(n.info.ID), Slots: v.Free, Memory: v.Memory}
	for _, s := range v.Digests {
		if d, ok := parseDigest(s); ok {
			ev.Held = append(ev.Held, d)
		}
	}
	for _, i := range v.Idle {
		session, known := h.byKey[i.Session]
		if k, ok := schedWorker(i.Worker); ok && known {
			ev.Idle = append(ev.Idle, sched.Idle{Session: session, Worker: k})
		}
	}
	h.handleEvent(ev)
	return nil
}

// noteHeard marks a silent node as up again.
func (h *Hub) noteHeard(n *node) {
	if n.info.State == NodeSilent {
		h.setState(n, NodeUp, "")
	}
}

func parseDigest(s string) (d sched.Digest, ok bool) {
	if len(s) != 2*len(d) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(s))
	return d, err == nil
}

func schedWorker(w proto.Worker) (k sched.Worker, ok bool) {
	k.Module, ok = parseDigest(w.Module)
	if ok && w.Init != "" {
		k.Init, ok = parseDigest(w.Init)
	}
	return k, ok
}

const keyMax = 64 // bytes of a session's name

// truncateText copies: a part of a long text would keep all of it in memory.
func truncateText(s string) string { return strings.Clone(s[:min(len(s), proto.TextMax)]) }

func (h *Hub) logLine(n *node, v *proto.Log) error {
	lockdep.AssertHeld(&h.mu)
	if len(v.Session) > keyMax {
		return fmt.Errorf("a session's name of %d bytes", len(v.Session))
	}
	h.emit(Event{Type: "log", Session: v.Session, Call: v.Call, Node: n.info.ID,
		Name: n.info.Name, Text: truncateText(v.Text)})
	return nil
}

// Nodes returns the table, by name.
func (h *Hub) Nodes() []NodeInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listed()
}

func (h *Hub) listed() []NodeInfo {
	programs := map[*node]int{}
	for _, x := range h.execs {
		if x.call == nil { // else it is one of the calls
			programs[x.node]++
		}
	}
	objects := h.objectsByNode()
	list := make([]NodeInfo, 0, len(h.nodes))
	for _, n := range h.nodes {
		i := n.info
		i.Programs, i.Objects = programs[n], objects[sched.NodeID(i.ID)]
		i.Ahead = h.sched.Waiting(sched.NodeID(i.ID), 0)
		i.Running = n.leases - i.Ahead
		list = append(list, i)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].Name != list[j].Name {
			return list[i].Name < list[j].Name
		}
		return list[i].ID < list[j].ID
	})
	return list
}

// About is what selectors know of a node.
func (n *NodeInfo) About() *label.Node {
	return &label.Node{Name: n.Name, ID: n.ID, OS: n.OS, Substrate: n.Substrate, CPUs: n.CPUs, Memory: n.Memory, Labels: n.Labels}
}

// SelectNodes returns the nodes that are up, not drained, and match. The selector any gives
// the one with the most free slots.
func SelectNodes(nodes []NodeInfo, selector string) ([]NodeInfo, error) {
	on, err := label.Parse(selector)
	if err != nil {
		return nil, err
	}
	var list []NodeInfo
	up := 0
	for _, n := range nodes {
		if n.State != NodeUp || !on.Matches(n.About()) {
			continue
		}
		up++
		if !n.Drained {
			list = append(list, n)
		}
	}
	if len(list) == 0 && up > 0 {
		return nil, fmt.Errorf("each node that is up and matches %s is drained: `skep nodes --reopen NAME` gives one work again", selector)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no node that is up matches %s: `skep nodes` lists them", selector)
	}
	if selector == "any" {
		sort.SliceStable(list, func(i, j int) bool { return list[i].Free > list[j].Free })
		list = list[:1]
	}
	return list, nil
}

// publish sends a message to a node. That one was lost shows in the node's beats.
func (h *Hub) publish(id string, verb proto.Verb, v any, raw []byte) error {
	b, err := proto.Encode(v, raw)
	if err == nil {
		err = h.nats.Publish(proto.ToNode(id, verb), b)
	}
	return err
}

// tellAll sends a message to every connected node.
func (h *Hub) tellAll(verb proto.Verb, v any) {
	lockdep.AssertHeld(&h.mu)
	for id, n := range h.nodes {
		if n.ready {
			if err := h.publish(id, verb, v, nil); err != nil {
				h.log.Warn("a node was not told", "node", id, "verb", verb, "error", err)
			}
		}
	}
}

const (
	lookEvery = 500 * time.Millisecond
	lookMost  = 3 * time.Second // between two looks of a hub that runs
)

// noteLook finds out whether this process was stopped, or its machine slept, since it looked
// last. Then it heard nobody, which is no silence of nodes: else it would take all of them for
// silent when it goes on.
func (h *Hub) noteLook() {
	lockdep.AssertHeld(&h.mu)
	now := h.cfg.look()
	slept := now.Sub(h.looked)
	h.looked = now
	if slept < lookMost {
		return
	}
	h.log.Warn("the hub did not run for a while", "time", slept)
	h.handleEvent(sched.Slept{For: slept})
	for _, a := range h.adopted {
		a.seen = a.seen.Add(slept)
	}
	for _, n := range h.nodes {
		n.info.LastSeen = n.info.LastSeen.Add(slept)
	}
}

// runTicker lets the scheduler see the time, until stop.
func (h *Hub) runTicker(stop <-chan struct{}) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.mu.Lock()
			h.noteLook()
			h.handleEvent(sched.Tick{})
			h.mu.Unlock()
			h.expireCalls()
		case <-stop:
			return
		}
	}
}
