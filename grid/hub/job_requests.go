// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sort"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
)

// request gives the machine a user's request and waits for the answer.
func (j *job) request(r *http.Request, event func(now time.Time) []move.Action) error {
	if !j.asking.TryLock() {
		return errors.New("another command moves or saves it: try again")
	}
	defer j.asking.Unlock()
	select {
	case <-j.answer: // of a request whose command was gone
	default:
	}
	j.happen(event)
	select {
	case text := <-j.answer:
		if text != "" {
			return errors.New(text)
		}
		return nil
	case <-j.over:
		return errors.New("it has ended")
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (h *Hub) findJob(w http.ResponseWriter, r *http.Request) *job {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[r.PathValue("job")]
	if j == nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "there is no job %s: `skep move` lists them", r.PathValue("job"))
	}
	return j
}

// moveJob moves a job to a node, or to the best one.
func (h *Hub) moveJob(w http.ResponseWriter, r *http.Request) {
	var v MoveRequest
	if !h.body(w, r, &v) {
		return
	}
	j := h.findJob(w, r)
	if j == nil {
		return
	}
	from := j.info()
	to, err := h.moveTarget(j, from.nodeID, v.Node)
	if err == nil {
		err = j.request(r, func(now time.Time) []move.Action { return j.machine.Move(now, to.ID) })
	}
	j.answerRequest(w, err)
}

func (h *Hub) moveTarget(j *job, from, name string) (NodeInfo, error) {
	if name == "" {
		for _, n := range h.movers(j.req.On) {
			if n.ID != from {
				return n, nil
			}
		}
		return NodeInfo{}, errors.New("there is no other node that is up and can take it: " + MovesNeed)
	}
	for _, n := range h.Nodes() {
		switch {
		case n.Name != name && n.ID != name:
		case n.State != NodeUp:
			return n, fmt.Errorf("the node %s is %s", n.Name, n.State)
		case n.Drained:
			return n, fmt.Errorf("the node %s is drained: `skep nodes --reopen %s` gives it work again", n.Name, n.Name)
		case !n.Moves:
			return n, fmt.Errorf("the node %s runs no movable programs: %s", n.Name, MovesNeed)
		default:
			return n, nil
		}
	}
	return NodeInfo{}, fmt.Errorf("there is no node %s: `skep nodes` lists them", name)
}

// leave moves a job to another node that has room, for a reason of move.Job.Leave, and returns
// that node: one that has not refused the job if there is one. It returns no name if no move
// begins: there may be no such node, or the job may be about to be saved.
func (j *job) leave(must string) (to string) {
	list := j.hub.movers(j.req.On)
	j.happen(func(now time.Time) []move.Action {
		_, _, from := j.machine.State()
		list = slices.DeleteFunc(list, func(n NodeInfo) bool { return n.ID == from || n.Free <= 0 })
		at := slices.IndexFunc(list, func(n NodeInfo) bool { return !j.machine.HasRefused(n.ID) })
		if at < 0 && must != "" { // it cannot stay, so each is asked again
			at = 0
		}
		if at < 0 || at == len(list) {
			return nil
		}
		actions := j.machine.Leave(now, list[at].ID, must)
		if actions != nil {
			to = list[at].ID
		}
		return actions
	})
	return to
}

// leaveNode moves the jobs of a node that is drained, each as soon as it can. One that cannot be
// saved is asked once, since a try stops it for a moment; one that a target refuses does not stop.
func (h *Hub) leaveNode(id string) {
	poll := time.NewTicker(jobTick)
	defer poll.Stop()
	asked := map[*job]string{}
	for h.roster.isDrained(id) {
		waits := false
		for _, j := range h.jobsOf(id) {
			moving, refused := j.attempt(asked[j])
			if !moving && (asked[j] == "" || refused) {
				if to := j.leave(""); to != "" {
					asked[j], moving = to, true
				}
			}
			waits = waits || moving || asked[j] == ""
		}
		if !waits {
			return
		}
		select {
		case <-h.stop:
			return
		case <-poll.C:
		}
	}
}

// attempt reports whether a job is being moved, and whether a node has refused it.
func (j *job) attempt(to string) (moving, refused bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	state, _, _ := j.machine.State()
	return state == move.Asking || state == move.Freezing, j.machine.HasRefused(to)
}

// jobsOf returns the jobs that a node has.
func (h *Hub) jobsOf(id string) []*job {
	return slices.DeleteFunc(h.allJobs(), func(j *job) bool { return j.info().nodeID != id })
}

func (h *Hub) allJobs() []*job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.jobs))
}

func (h *Hub) checkpointJob(w http.ResponseWriter, r *http.Request) {
	if j := h.findJob(w, r); j != nil {
		j.answerRequest(w, j.request(r, func(now time.Time) []move.Action { return j.machine.Checkpoint(now) }))
	}
}

func (j *job) answerRequest(w http.ResponseWriter, err error) {
	if err != nil {
		writeProblem(w, http.StatusConflict, proto.ProblemGone, "job %s: %v", j.name, err)
		return
	}
	writeJSON(w, http.StatusOK, j.info())
}

func (h *Hub) listJobs(w http.ResponseWriter, r *http.Request) {
	list := []JobInfo{}
	for _, j := range h.allJobs() {
		list = append(list, j.info())
	}
	sort.Slice(list, func(i, k int) bool { return list[i].Began.Before(list[k].Began) })
	writeJSON(w, http.StatusOK, list)
}

func (j *job) info() JobInfo {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := JobInfo{Job: j.name, Program: j.req.Name, Began: j.began, Moves: j.moves, PauseNS: int64(j.pause), Bytes: j.bytes, Account: j.account}
	if j.machine != nil {
		state, _, node := j.machine.State()
		i.State, i.nodeID, i.Node = state.String(), node, j.hub.nodeName(node)
	}
	return i
}
