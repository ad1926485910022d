// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"skep/grid/policy"
	"skep/grid/policy/sources"
	"skep/internal/atomicfile"
)

// errOwner is why a lease goes back to the hub before its call is done.
var errOwner = errors.New("the owner of the node needs the computer")

// An owner applies the policy of the machine's owner to the programs of this node: it
// says how many slots there are, pauses programs, and gives leases back. mu guards all
// but the agent; it is held while a program is paused, so that pause and resume of one
// program keep their order.
type owner struct {
	agent *Agent
	name  string        // of the policy
	began chan struct{} // a program has begun since the last look

	mu       sync.Mutex
	machine  *policy.Machine
	programs map[uint64]*program
	next     uint64
	last     policy.Decision
}

// A program is what the owner's policy governs: a call's worker, or a program of skep exec.
type program struct {
	owner    *owner
	id       uint64
	giveBack func()
	process  *process // nil: it has not started yet
	paused   bool
}

// OwnerState is what an agent writes down for `skep policy why`, in OwnerFile.
type OwnerState struct {
	Time    time.Time `json:"time"`
	Policy  string    `json:"policy"`
	Slots   int       `json:"slots"` // permitted
	Of      int       `json:"of"`    // slots of the node
	Why     string    `json:"why"`
	Running int       `json:"running"` // programs, not counting paused ones
	Paused  int       `json:"paused"`
}

// OwnerFile is the name of the state in the agent's directory.
const OwnerFile = "owner.json"

// How often the owner looks at the machine while programs run, and while none runs.
const (
	ownerEvery  = time.Second
	ownerSeldom = 5 * time.Second
)

// newOwner gives an owner that permits everything if p is nil.
func newOwner(a *Agent, name string, p *policy.Policy) *owner {
	o := &owner{agent: a, name: name, began: make(chan struct{}, 1), programs: map[uint64]*program{}}
	if p != nil {
		o.machine = policy.NewMachine(p, a.config.Slots)
		a.pool.setSlots(0) // until the first look
	}
	return o
}

// startOwner looks at the machine until ctx ends; the function that it returns waits for that.
func (a *Agent) startOwner(ctx context.Context) (stop func()) {
	if a.owner.machine == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := sources.NewReader(a.config.Policy)
		defer r.Close()
		a.owner.run(ctx, r.Read)
	}()
	return func() { cancel(); <-ended }
}

// run looks at the machine until ctx ends.
func (o *owner) run(ctx context.Context, read func(time.Time) *policy.Facts) {
	for ctx.Err() == nil {
		select {
		case <-o.began:
		default:
		}
		now := time.Now()
		o.step(now, read(now))
		o.wait(ctx)
	}
}

// wait waits for the next look. A program that begins is looked after at once, but many
// short ones cause no more than a look each second.
func (o *owner) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(ownerEvery):
	}
	if o.governs() {
		return
	}
	select {
	case <-ctx.Done():
	case <-o.began:
	case <-time.After(ownerSeldom - ownerEvery):
	}
}

// governs says whether there is a program that may have to be paused or go on.
func (o *owner) governs() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.programs) > 0
}

// step applies the facts of a moment.
func (o *owner) step(now time.Time, f *policy.Facts) {
	o.mu.Lock()
	o.apply(o.machine.Step(now, f))
	d := o.machine.Allowed()
	changed := d != o.last
	less := d.Slots < o.last.Slots
	o.last = d
	state := o.state(now)
	o.mu.Unlock()
	o.agent.pool.setSlots(d.Slots)
	if d.Slots < state.Of {
		o.agent.returnStuck()
	}
	if !changed {
		return
	}
	o.agent.config.Log("%s", state)
	if err := o.write(state); err != nil {
		o.agent.config.Log("what the owner's policy permits cannot be written down: %v", err)
	}
	if less {
		o.agent.returnWaiting()
	}
	if d.Slots == 0 {
		o.agent.endIdle()
	}
	if o.agent.toHub() != nil {
		o.agent.sendAsk()
	}
}

// apply carries out actions. The lock is held.
func (o *owner) apply(list []policy.Action) {
	for _, a := range list {
		p := o.programs[a.ID]
		switch a.Do {
		case policy.Pause, policy.Resume:
			p.paused = a.Do == policy.Pause
			if p.process != nil {
				p.process.setPaused(p.paused)
			}
		case policy.Return:
			p.giveBack()
		}
	}
}

// begin enters a program that is about to start. giveBack ends it and does not block.
func (o *owner) begin(slot bool, giveBack func()) *program {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	p := &program{owner: o, id: o.next, giveBack: giveBack}
	if o.machine != nil {
		o.programs[p.id] = p
		o.apply(o.machine.Start(time.Now(), p.id, slot))
		select {
		case o.began <- struct{}{}:
		default:
		}
	}
	return p
}

// moves says that giveBack does not end the program, but asks that it is moved.
func (p *program) moves() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	if p.owner.machine != nil {
		p.owner.machine.Moves(p.id)
	}
}

// attach says which process the program is, as soon as there is one.
func (p *program) attach(process *process) {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.process = process
	if p.paused {
		process.setPaused(true)
	}
}

// end removes a program. Its process may live on as an idle worker, and is not paused then.
func (p *program) end() {
	o := p.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.machine == nil {
		return
	}
	if p.paused && p.process != nil {
		p.process.setPaused(false)
	}
	delete(o.programs, p.id)
	o.apply(o.machine.End(time.Now(), p.id))
}

// state is what the policy does now. The lock is held.
func (o *owner) state(now time.Time) *OwnerState {
	d, paused := o.machine.Allowed(), o.machine.Paused()
	return &OwnerState{Time: now, Policy: o.name, Slots: d.Slots, Of: o.agent.config.Slots, Why: d.Why(),
		Running: len(o.programs) - paused, Paused: paused}
}

func (s *OwnerState) String() string {
	text := fmt.Sprintf("the owner's policy permits %d of %d slots (%s)", s.Slots, s.Of, s.Why)
	if s.Paused > 0 {
		text += fmt.Sprintf("; %d paused", s.Paused)
	}
	return text
}

func (o *owner) write(s *OwnerState) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(o.agent.config.State, OwnerFile), append(text, '\n'), 0o600)
}

// beatText is what a heartbeat says: nothing while all slots are permitted.
func (o *owner) beatText() string {
	if o.machine == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.machine.Allowed().Slots == o.agent.config.Slots {
		return ""
	}
	return o.state(time.Now()).String()
}

// returnStuck gives back the leases that would have a slot if the owner needed no part of
// the machine: one that came just after less was permitted, or that was to follow a lease
// which has been given back. The hub takes them for running and would never move them.
func (a *Agent) returnStuck() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fence := range a.pool.stuck() {
		if l := a.leases[fence]; l != nil {
			l.giveBack()
		}
	}
}

// returnWaiting gives back the leases that have no slot.
func (a *Agent) returnWaiting() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.leases {
		if !l.begun.Load() {
			l.giveBack()
		}
	}
}

// endIdle ends the idle workers: the owner gets their memory back.
func (a *Agent) endIdle() {
	idle := a.pool.takeIdle()
	a.running.Go(func() { a.endWorkers(idle) })
}
