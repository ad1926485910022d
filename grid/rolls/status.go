// SPDX-License-Identifier: MIT

package rolls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"skep/dynamos/update/roll"
	"skep/internal/cli"
)

// A Status is a roll as people see it.
type Status struct {
	Spec  Spec         `json:"spec"`
	Began time.Time    `json:"began"`
	State string       `json:"state"`
	Why   string       `json:"why,omitempty"`
	Wave  int          `json:"wave"` // that has begun
	Waves int          `json:"waves"`
	Nodes []NodeStatus `json:"nodes"`
	Log   []Entry      `json:"log"`
}

// Damaged is the state of a roll whose record cannot be read.
const Damaged = "damaged"

// A NodeStatus is a node of a roll.
type NodeStatus struct {
	Name   string      `json:"name"`
	Phase  string      `json:"phase"`
	Goal   string      `json:"goal"`
	Failed string      `json:"failed,omitempty"`
	Silent float64     `json:"silent"`          // seconds since its last report; -1: never heard
	Waits  string      `json:"waits,omitempty"` // why its next step is not done yet
	Inside []string    `json:"inside,omitempty"`
	Health roll.Health `json:"health"`
	// Functions are those of the update in the node's kernel, while it is loaded.
	Functions []Function `json:"functions,omitempty"`
}

// Heard says when the node reported last.
func (n *NodeStatus) Heard() string {
	if n.Silent < 0 {
		return "never"
	}
	return cli.FormatAgo(time.Now().Add(-time.Duration(n.Silent * float64(time.Second))))
}

// Sums returns how many nodes run the update on trial, have it for good, and are left out.
func (s *Status) Sums() (n Sums) {
	for i := range s.Nodes {
		switch s.Nodes[i].Phase {
		case roll.Canary.String(), roll.Full.String():
			n.Run++
		case roll.Committed.String():
			n.Committed++
		}
		if s.Nodes[i].Failed != "" {
			n.Left++
		}
	}
	return n
}

// Functions adds up the figures of all nodes by function. Those of latency are the longest
// of any node.
func (s *Status) Functions() (list []Function) {
	for i := range s.Nodes {
		list = roll.AddFunctions(list, s.Nodes[i].Functions)
	}
	return list
}

// Sums of the nodes of a roll.
type Sums struct{ Run, Committed, Left int }

// List returns all rolls by name, or that of one update.
func (h *Hub) List(name string) ([]Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []Status{}
	for _, r := range h.rolls {
		if name == "" || name == r.Spec.Name {
			list = append(list, h.status(r))
		}
	}
	for of, d := range h.damaged {
		if name == "" || name == of {
			list = append(list, Status{Spec: Spec{Name: of}, Began: d.at, State: Damaged, Why: d.why.Error(), Nodes: []NodeStatus{}, Log: []Entry{}})
		}
	}
	if name != "" && len(list) == 0 {
		return nil, ErrNoRoll
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	return list, nil
}

func (h *Hub) status(r *record) Status {
	s := Status{Spec: r.Spec, Began: r.Began, State: r.Roll.State.String(), Why: r.Roll.Why, Wave: r.Roll.Begun,
		Waves: len(r.Roll.Plan.Waves), Nodes: []NodeStatus{}, Log: slices.Clone(r.Log)}
	if r.broken != nil {
		s.Why = fmt.Sprintf("held: it cannot be stored: %v", r.broken)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Roll.Nodes)) {
		m := r.Roll.Nodes[name]
		n := NodeStatus{Name: name, Phase: m.Last.Phase.String(), Goal: m.Goal.String(), Failed: m.Failed, Silent: -1, Waits: m.Last.Waits, Inside: m.Last.Inside, Health: m.Last.Health,
			Functions: r.figures[name]}
		if m.Last.Boot != "" {
			n.Silent = (h.clock(r) - m.At).Seconds()
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}
