// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"sync"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
)

// A job is a movable program of skep exec, whose command line is connected. Its frames pass
// through the hub, which decides what of them counts. mu guards all but the first four fields,
// and is taken before Hub.mu. out is held while something is written to the command line.
type job struct {
	hub    *Hub
	name   string
	req    ExecRequest
	client io.ReadWriteCloser
	out    sync.Mutex
	asking sync.Mutex  // held during a request
	answer chan string // its answer
	over   chan struct{}

	mu      sync.Mutex
	more    *sync.Cond // input, room for it, or the end of a leg
	machine *move.Job
	legs    map[move.Leg]*leg
	images  map[string]savedImage // by the owner of their pin, since two may have the same bytes
	input   tape
	eof     bool
	held    tape  // output that waits for a checkpoint, in frames
	mark    int64 // of it, as far as the last Frozen
	ended   bool
	exit    []byte         // the frame that ends it
	why     proto.ExecType // how it ends without that
	began   time.Time
	moves   int
	frozen  time.Time // when the last Frozen came
	pause   time.Duration
	account proto.ExecAccount // of pause
	bytes   int64
}

// A savedImage is a checkpoint in the hub's blob store.
type savedImage struct {
	digest string
	input  uint64 // that the program had read
}

const (
	jobTick  = 100 * time.Millisecond
	heldFull = 64 << 20 // more output than this is not held without a checkpoint
)

// serveJob runs a movable program for its command line.
func (h *Hub) serveJob(w http.ResponseWriter, v ExecRequest) {
	rules := move.DefaultRules
	rules.Every = time.Duration(v.Checkpoint * float64(time.Second))
	j, err := h.newJob(v)
	if err != nil {
		writeProblem(w, http.StatusConflict, proto.ProblemGone, "%v", err)
		return
	}
	defer h.endJob(j)
	c, err := hijackConn(w)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	defer c.Close()
	j.client = c
	j.tell("job %s runs on %s", j.name, h.nodeName(v.Node))
	j.mu.Lock()
	m, list := move.New(time.Now(), rules, v.Node)
	j.machine = m
	j.do(list)
	j.mu.Unlock()
	go j.readClient()
	t := time.NewTicker(jobTick)
	defer t.Stop()
	for {
		select {
		case <-j.over:
			return
		case <-h.stop:
			j.happen(func(time.Time) []move.Action { return j.machine.Stop() })
		case <-t.C:
			j.tick()
		}
	}
}

func (h *Hub) newJob(v ExecRequest) (*job, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errStops
	}
	if n := h.nodes[v.Node]; n == nil || n.info.State != NodeUp {
		return nil, errors.New("this node is not up: `skep nodes` lists those that are")
	} else if !n.info.Moves {
		return nil, fmt.Errorf("the node %s runs no movable programs: %s", n.info.Name, MovesNeed)
	}
	h.jobCount++
	j := &job{hub: h, name: strconv.Itoa(h.jobCount), req: v, answer: make(chan string, 1), over: make(chan struct{}),
		legs: map[move.Leg]*leg{}, images: map[string]savedImage{}, began: time.Now(), why: proto.ExecGone,
		input: tape{dir: h.cfg.State}, held: tape{dir: h.cfg.State}}
	j.more = sync.NewCond(&j.mu)
	h.jobs[j.name] = j
	return j, nil
}

// MovesNeed says what a node needs for movable programs.
const MovesNeed = "it needs Linux, bee beside its skep, name spaces for its programs, and an agent of this version"

func (h *Hub) endJob(j *job) {
	j.happen(func(time.Time) []move.Action { return j.machine.Stop() })
	h.mu.Lock()
	delete(h.jobs, j.name)
	h.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.input.close()
	j.held.close()
	for owner := range j.images {
		h.blobs.Discard(owner)
	}
}

func (h *Hub) nodeName(id string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.nodes[id]; n != nil {
		return n.info.Name
	}
	return id
}

// happen gives the machine an event and does what it says.
func (j *job) happen(event func(now time.Time) []move.Action) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.machine != nil && !j.ended {
		j.do(event(time.Now()))
	}
}

// tick also notices nodes that were not heard for too long, whose connection has not broken.
func (j *job) tick() {
	j.happen(func(now time.Time) []move.Action {
		for number, l := range j.legs {
			if !l.dead && j.hub.isSilent(l.node) {
				if list := j.machine.Lost(now, number, "the node was not heard for too long"); list != nil {
					return list
				}
			}
		}
		return j.machine.Tick(now)
	})
}

func (h *Hub) isSilent(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[id]
	return n == nil || n.info.State == NodeSilent
}

// tell writes a sentence of the hub to the command line's error stream.
func (j *job) tell(format string, args ...any) {
	j.write(proto.ExecStderr, []byte("skep: "+fmt.Sprintf(format, args...)+"\n"))
}

func (j *job) write(t proto.ExecType, p []byte) {
	j.out.Lock()
	defer j.out.Unlock()
	if proto.WriteExec(j.client, t, p) != nil {
		j.client.Close() // its reader ends the job
	}
}

// do carries actions out. The lock is held.
func (j *job) do(list []move.Action) {
	for _, a := range list {
		l := j.legs[a.Leg]
		switch a.Do {
		case move.Open:
			j.openLeg(a.Leg, a.Node)
		case move.Begin:
			l.start(0, proto.ExecBegin, nil)
		case move.Restore:
			i := j.images[a.Image]
			l.start(i.input, proto.ExecRestore, []byte(i.digest))
		case move.Freeze:
			l.sendJSON(proto.ExecFreeze, proto.ExecSave{Serial: int(a.Serial), Hold: a.Hold, Await: a.Hold && l.awaits()})
		case move.Resume:
			l.sendJSON(proto.ExecResume, proto.ExecSave{Serial: int(a.Serial)})
		case move.Kill:
			l.kill()
		case move.Pass:
			j.pass(a.All)
		case move.Drop:
			j.held.close()
			j.mark = 0
		case move.Forget:
			j.hub.blobs.Discard(a.Image)
			delete(j.images, a.Image)
		case move.Find:
			j.find(a.Not)
		case move.Answer:
			select {
			case j.answer <- a.Text:
			default:
			}
		case move.Tell:
			j.tell("job %s: %s", j.name, a.Text)
		case move.End:
			j.end(a.Text)
		}
	}
}

// pass gives output that waited to the command line.
func (j *job) pass(all bool) {
	n := j.mark
	if all {
		n = j.held.size
	}
	j.mark = 0
	j.out.Lock()
	defer j.out.Unlock()
	if err := j.held.cut(j.client, n); err != nil {
		j.client.Close()
	}
}

func (j *job) end(why string) {
	j.ended = true
	if why == "" && j.exit != nil {
		j.write(proto.ExecType(j.exit[0]), j.exit[1:])
	} else {
		j.write(j.why, []byte(why[:min(len(why), proto.TextMax)]))
	}
	j.more.Broadcast()
	close(j.over)
}

// find looks for a node for a program that waits for one.
func (j *job) find(not map[string]bool) {
	list := j.hub.movers(j.req.On)
	for _, n := range list {
		if !not[n.ID] {
			j.do(j.machine.Found(time.Now(), n.ID))
			return
		}
	}
}

// movers lists the nodes of a selector that can take movable programs, those with the most free
// slots first.
func (h *Hub) movers(on string) (list []NodeInfo) {
	if on == "" || on == "any" {
		on = "all"
	}
	all, err := SelectNodes(h.Nodes(), on)
	if err != nil {
		return nil
	}
	for _, n := range all {
		if n.Moves {
			list = append(list, n)
		}
	}
	sort.SliceStable(list, func(i, k int) bool { return list[i].Free > list[k].Free })
	return list
}

// readClient takes the command line's frames. Its end ends the job.
func (j *job) readClient() {
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(j.client, buf)
		if err != nil || t != proto.ExecStdin {
			break
		}
		j.mu.Lock()
		if len(p) == 0 {
			j.eof = true
		} else if err = j.input.append(p); err != nil {
			j.tell("job %s: its input cannot be kept: %v", j.name, err)
		}
		j.more.Broadcast()
		j.mu.Unlock()
		if err != nil {
			break
		}
	}
	j.happen(func(time.Time) []move.Action { return j.machine.Stop() })
}
