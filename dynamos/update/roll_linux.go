// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/grid/rolls"
	"skep/internal/uapi"
)

// A RollKernel is the kernel that a RollNode changes.
type RollKernel interface {
	Kernel
	SetPolicy(name string, p uapi.DynamosPolicy) error
	CommitFor(name string, p uapi.DynamosPolicy) error
	TakesRolls() error
	Revert(name string, exist bool) error
	Events() ([]uapi.DynamosEvent, error)
	Remove(name string) error
	Close() error
}

// thisRollKernel is the running kernel.
type thisRollKernel struct{ ThisKernel }

func (k thisRollKernel) Remove(name string) error { return Remove(k.Device, name) }

// A RollNode lets a hub roll updates out to this machine. The hub decides when; the
// operators whose keys are in Trust decide what.
type RollNode struct {
	Trust  *trust.Store
	Keep   *Keep
	BootID string
	Now    func() time.Time
	IsRoot bool                       // the kernel accepts updates from root only
	Root   string                     // of /sys and /proc
	Build  func() (string, error)     // the kernel's build-id
	Open   func() (RollKernel, error) // for each step, so that no module is in use between them
	// Settles reports whether updates that were restored at this boot are on trial still.
	// Another module would be taken for one of them if the machine failed; nil: no.
	Settles func() bool
}

// NewRollNode returns that of the running kernel.
func NewRollNode(t *trust.Store, k *Keep) (*RollNode, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return &RollNode{Trust: t, Keep: k, BootID: strings.TrimSpace(string(id)), Now: time.Now, IsRoot: os.Geteuid() == 0, Root: "/", Build: func() (string, error) { return RunningBuildID("/sys") }, Open: func() (RollKernel, error) {
		d, err := Open()
		if err != nil {
			return nil, err
		}
		return thisRollKernel{ThisKernel{d}}, nil
	}}, err
}

// rollKernel makes a RollNode the rolls.Kernel of an agent.
type rollKernel struct{ *RollNode }

// Rolls returns the node as an agent needs it.
func (n *RollNode) Rolls() rolls.Kernel { return rollKernel{n} }

// Boot returns the id of this boot.
func (n rollKernel) Boot() string { return n.BootID }

// Clock returns CLOCK_BOOTTIME, on which the windows of policies are.
func (n rollKernel) Clock() time.Duration { return time.Duration(Boottime()) }

// Build returns the build-id of the kernel.
func (n rollKernel) Build() (string, error) { return n.RollNode.Build() }

// Applied returns the loaded updates with at most roll.FiguresMax functions.
func (n rollKernel) Applied() (applied []roll.Applied, err error) {
	k, err := n.RollNode.Open()
	if err != nil {
		return nil, err
	}
	defer k.Close()
	list, err := List(k, Names{})
	room := roll.FiguresMax
	for i := range list {
		u := &list[i]
		a := roll.Applied{Name: u.Name, State: u.State, Advised: u.Advised, End: u.End, Left: max(0, len(u.Functions)-room)}
		for _, f := range u.Functions[:len(u.Functions)-a.Left] {
			a.Functions = append(a.Functions, rolledFunction(&f))
		}
		room -= len(a.Functions)
		applied = append(applied, a)
	}
	return applied, err
}

// Open returns an update of this kernel.
func (n rollKernel) Open(s rolls.Spec, read func(string) ([]byte, error)) rolls.Update {
	return &rolledUpdate{node: n.RollNode, spec: s, read: read}
}

// An about is what the later steps of a roll need of a package, so that they neither read
// nor digest it again. The package cannot change: the roll names it by its digest.
type about struct {
	signatures           []byte
	name, class, content string
	relies               bool // on what existing objects lack
}

// A rolledUpdate is an update that a hub rolls out.
type rolledUpdate struct {
	node  *RollNode
	spec  rolls.Spec
	read  func(digest string) ([]byte, error)
	phase roll.Phase // that the policy was last checked for
	about *about     // the package, once it was opened
	exist string     // why objects do no harm that exist, as operators signed it

	inside []string // as found at sought
	sought time.Duration
}

// with opens the kernel for one step.
func (u *rolledUpdate) with(do func(k RollKernel) error) error {
	k, err := u.node.Open()
	if err != nil {
		return err
	}
	return errors.Join(do(k), k.Close())
}

// policy returns the kernel's policy of a phase, which ends at until.
func (u *rolledUpdate) policy(p roll.Phase, until time.Duration) (k uapi.DynamosPolicy, err error) {
	text := u.spec.Policy
	switch p {
	case roll.Canary:
		text = u.spec.Canary
	case roll.Full, roll.Committed:
	default:
		return k, nil // nobody
	}
	t, err := trust.ParsePolicy(text)
	if err != nil {
		return k, err
	}
	return t.Kernel(uint64(max(until, 0)), CgroupID)
}

// facts are what this node knows of the package.
func (u *rolledUpdate) facts(a *about, policy *uapi.DynamosPolicy) *trust.Facts {
	return &trust.Facts{Relayed: true, Name: a.name, Class: a.class, Content: a.content, Relies: a.relies, Policy: policy, Cgroup: CgroupPath,
		Trial: true, Confirm: u.spec.Trial}
}

// describe returns what is known of the package, which it opens at most once.
func (u *rolledUpdate) describe() (*about, error) {
	if u.about == nil {
		if _, _, _, err := u.open(); err != nil {
			return nil, err
		}
	}
	return u.about, nil
}

// Package returns the digest of the roll's package for this kernel.
func (u *rolledUpdate) Package() (string, error) {
	running, err := u.node.Build()
	if err != nil {
		return "", err
	}
	if u.node.Keep.IncludedIn(u.spec.Name, running) {
		return "", refusef("included: this kernel contains the change, as operators signed")
	}
	digest, ok := u.spec.PackageFor(running)
	if !ok {
		release, _ := os.ReadFile(filepath.Join(u.node.Root, "proc/sys/kernel/osrelease")) // the build-id says it too
		return "", refusef("none of the %d packages of the roll is for this kernel, %s with the build-id %s: build one with 'skep update build', and begin the roll again with it",
			len(u.spec.Variants), strings.TrimSpace(string(release)), running)
	}
	return digest, nil
}

// file returns the package's bytes, of which the digest is right.
func (u *rolledUpdate) file() ([]byte, error) {
	digest, err := u.Package()
	if err != nil {
		return nil, err
	}
	text, err := u.node.Keep.Remembered(u.spec.Name)
	if err == nil && digestOf(text) == digest {
		return text, nil
	}
	if text, err = u.read(digest); err != nil {
		return nil, err
	}
	if digestOf(text) != digest {
		return nil, refusef("the package of %s is not the one that the roll names", u.spec.Name)
	}
	return text, nil
}

// open reads the package, and returns its module for this kernel.
func (u *rolledUpdate) open() (p *pack.Package, text, module []byte, err error) {
	if text, err = u.file(); err != nil {
		return nil, nil, nil, err
	}
	if p, err = pack.Read(bytes.NewReader(text)); err != nil {
		return nil, nil, nil, err
	}
	switch {
	case p.Name != u.spec.Name:
		err = refusef("the package is %s, and the roll is of %s", p.Name, u.spec.Name)
	case p.Class == uapi.DynamosTogether.String():
		err = refusef("class together changes all tasks at once, so no lease can bound its trial: apply %s on each node by 'skep update apply'", p.Name)
	default:
		err = u.with(func(k RollKernel) error {
			running, err := k.BuildID()
			if err == nil {
				module, err = moduleOf(p, running)
			}
			return err
		})
	}
	if err == nil && u.about == nil {
		var content string
		if content, err = p.Content(); err == nil {
			u.about = &about{p.Signatures, p.Name, p.Class, content, p.ReliesOnState()}
		}
	}
	return p, text, module, err
}

// Stage verifies the package against the keys of this node, and records its sequence.
func (u *rolledUpdate) Stage() error {
	if !u.node.IsRoot {
		return refusef("the agent of this node does not run as root, and the kernel accepts updates from root only")
	}
	exists, err := u.node.Trust.Exists()
	if err != nil {
		return err
	}
	if !exists {
		return &trust.Refusal{Name: trust.Unpinned, Why: "this node has no keys of operators, so it takes no update from a hub: 'skep update keys trust' pins them"}
	}
	if err := u.with(RollKernel.TakesRolls); err != nil {
		return err
	}
	p, text, module, err := u.open()
	if err != nil {
		return err
	}
	if err := ReadLockdown(u.node.Root).Check(p.Name, module); err != nil {
		return err
	}
	if err := u.approve(); err != nil {
		return err
	}
	return u.node.Keep.Remember(p.Name, text)
}

// approve checks both policies, and records the sequence of the package.
func (u *rolledUpdate) approve() error {
	a, err := u.describe()
	if err != nil {
		return err
	}
	return u.node.Trust.Change(func(s trust.State) (trust.State, error) {
		for _, phase := range []roll.Phase{roll.Canary, roll.Full} {
			policy, err := u.policy(phase, 0)
			if err != nil {
				return s, err
			}
			next, v, err := s.CheckPackage(a.signatures, u.facts(a, &policy), u.node.Now())
			if err != nil {
				return s, err
			}
			s, u.exist = next, v.Package.ObjectsExist
		}
		return s, nil
	})
}

// Load loads the module, and begins the trial for nobody.
func (u *rolledUpdate) Load() error {
	if u.node.Settles != nil && u.node.Settles() {
		return fmt.Errorf("%w: settling: updates that were restored after the boot are on trial", roll.ErrLater)
	}
	p, _, module, err := u.open()
	if err != nil {
		return err
	}
	if err := u.approve(); err != nil { // a key may have been revoked, or the package blocked
		return err
	}
	h, flags := u.spec.Health, uint32(0)
	if u.spec.Supersede {
		flags = uapi.DynamosSupersede
	}
	if err := u.node.Keep.RememberExist(p.Name, u.exist); err != nil {
		return err
	}
	a := uapi.DynamosApply{Flags: flags | existFlag(u.exist), ConfirmMS: uint32(u.spec.Trial.Milliseconds()), EnterMS: uint32(time.Minute.Milliseconds()),
		Health: uapi.DynamosHealth{Least: h.Least, Errors: h.Errors, Stuck: uint64(h.Stuck)}}
	if h.Latency > math.MaxUint32-Longer {
		return refusef("a latency limit of %d%% is out of range", h.Latency)
	}
	if h.Latency > 0 {
		a.Health.Latency = Longer + h.Latency
	}
	return u.with(func(k RollKernel) error {
		i, loaded, err := lookFor(k, p.Name)
		if err != nil {
			return err
		}
		if loaded && i.State == uapi.DynamosLeaving {
			return fmt.Errorf("%w: it was reverted before, and tasks are still inside", roll.ErrLater)
		}
		if loaded && i.State != uapi.DynamosLoaded {
			return refusef("%s is %s already on this node: revert it first", p.Name, i.State)
		}
		fresh, err := k.Load(p.Name, module)
		if err != nil {
			return err
		}
		if _, err = k.Apply(context.Background(), p.Name, &a); err != nil && fresh {
			err = errors.Join(err, k.Remove(p.Name))
		}
		return err
	})
}

// Select gives the policy of a phase, until the lease ends. Another phase's policy is
// checked against the signatures once more.
func (u *rolledUpdate) Select(p roll.Phase, until time.Duration) error {
	policy, err := u.policy(p, until)
	if err != nil {
		return err
	}
	if p != u.phase && p != roll.Loaded {
		if err := u.approvePolicy(&policy); err != nil {
			return err
		}
	}
	u.phase = p
	return u.with(func(k RollKernel) error { return k.SetPolicy(u.spec.Name, policy) })
}

func (u *rolledUpdate) approvePolicy(policy *uapi.DynamosPolicy) error {
	a, err := u.describe()
	if err != nil {
		return err
	}
	s, err := u.node.Trust.Load()
	if err != nil {
		return err
	}
	return s.CheckPolicy(a.signatures, u.facts(a, policy))
}

// Commit keeps the update, and takes the end from its policy in the same step: wherever the
// agent dies, this update or what it supersedes is in force. What it supersedes leaves with
// the commit.
func (u *rolledUpdate) Commit() error {
	policy, err := u.policy(roll.Committed, 0)
	if err != nil {
		return err
	}
	if err := u.approvePolicy(&policy); err != nil {
		return err
	}
	return u.with(func(k RollKernel) error {
		if err := k.CommitFor(u.spec.Name, policy); err != nil {
			return err
		}
		return u.keep(k)
	})
}

// keep stores a committed update, so that it comes back after a boot.
func (u *rolledUpdate) keep(k RollKernel) error {
	on, err := u.node.Keep.IsOn()
	if err != nil || !on {
		return err
	}
	id, err := k.BuildID()
	if err != nil {
		return err
	}
	why, err := u.node.Keep.Save(k, u.spec.Name, id)
	if err == nil && why != "" {
		err = refusef("%s is not restored after a boot: %s", u.spec.Name, why)
	}
	return errors.Join(err, u.node.Keep.ForgetEnded(k))
}

// Revert takes the update back. One that is not there is reverted already. As when the
// kernel reverts an update by itself, objects do not matter.
func (u *rolledUpdate) Revert() error {
	return u.with(func(k RollKernel) error {
		i, loaded, err := lookFor(k, u.spec.Name)
		if err != nil || !loaded || i.State == uapi.DynamosLoaded || i.State == uapi.DynamosLeaving {
			return err
		}
		return errors.Join(k.Revert(u.spec.Name, true), u.node.Keep.Forget(u.spec.Name))
	})
}

// Unload unloads the module of a reverted update. One that is held stays until the next
// boot.
func (u *rolledUpdate) Unload() error {
	return u.with(func(k RollKernel) error {
		i, loaded, err := lookFor(k, u.spec.Name)
		if err != nil || !loaded || i.Held == uapi.DynamosIsHeld {
			return err
		}
		return k.Remove(u.spec.Name)
	})
}

// Content returns the digest of what the operators signed.
func (u *rolledUpdate) Content() (string, error) {
	a, err := u.describe()
	if err != nil {
		return "", err
	}
	return a.content, nil
}

// Fail records that a package with these contents failed on this node.
func (u *rolledUpdate) Fail(content, why string) error {
	return u.node.Trust.Change(func(s trust.State) (trust.State, error) { return s.Block(content, why), nil })
}

var rollStates = map[uapi.DynamosState]rolls.State{uapi.DynamosEntering: rolls.OnTrial, uapi.DynamosTrial: rolls.OnTrial,
	uapi.DynamosCommitted: rolls.Kept, uapi.DynamosLeaving: rolls.Drains}

// Look returns the update's state.
func (u *rolledUpdate) Look() (v rolls.View, err error) {
	err = u.with(func(k RollKernel) error {
		i, loaded, err := lookFor(k, u.spec.Name)
		if off := u.node.Keep.WhyOff(u.spec.Name); off != nil {
			v.Off, v.Harm = off.Why, off.Harm
		}
		if err != nil || !loaded {
			return err
		}
		v.State, v.End = rollStates[i.State], uapi.Text(i.End[:])
		if v.State == rolls.OnTrial && u.spec.Health.Stuck > 0 {
			if v.Stuck, err = stuckCalls(k, u.spec.Name); err != nil {
				return err
			}
		}
		v.Superseded = i.Cause == uapi.DynamosSuperseded && (v.State == rolls.Drains || v.State == rolls.Absent)
		s, err := statusOf(k, &i, Names{})
		if errors.Is(err, ErrNoMore) {
			v = rolls.View{}
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range s.Functions {
			v.Health.OldCalls += f.Old.Calls
			v.Health.OldErrors += f.Old.Errors
			v.Health.NewCalls += f.New.Calls
			v.Health.NewErrors += f.New.Errors
			v.Functions = append(v.Functions, rolledFunction(&f))
		}
		if v.State == rolls.Drains {
			v.Inside, err = u.insideNames(s)
		}
		return err
	})
	return v, err
}

// stuckCalls returns which calls of an update did not return in time since it was applied last.
func stuckCalls(k RollKernel, name string) (why string, err error) {
	events, err := k.Events()
	for i := range events {
		e := &events[i]
		switch {
		case uapi.Text(e.Name[:]) != name:
		case e.Cause == uapi.DynamosAsked && e.State == uapi.DynamosTrial && uapi.Text(e.Text[:]) == "applied":
			why = ""
		case e.Cause == uapi.DynamosStuck && why == "":
			why = "a call does not return: " + uapi.Text(e.Text[:])
		}
	}
	return why, err
}

func rolledFunction(f *Function) roll.Function {
	return roll.Function{Symbol: f.Symbol, Uncounted: f.Uncounted, Old: figuresOf(&f.Old), New: figuresOf(&f.New)}
}

// figuresOf returns what a hub shows of a version.
func figuresOf(v *Version) rolls.Version {
	f := rolls.Version{Calls: v.Calls, Errors: v.Errors, Inside: v.Inside}
	if v.Sampled > 0 {
		f.P50, f.P99 = v.P50, v.P99
	}
	return f
}

// insideEvery bounds how often all tasks are searched.
const insideEvery = 2 * time.Second

// insideNames names the tasks inside an update that leaves.
func (u *rolledUpdate) insideNames(s Status) ([]string, error) {
	now := time.Duration(Boottime())
	if u.sought != 0 && now-u.sought < insideEvery {
		return u.inside, nil
	}
	list := []Status{s}
	if err := FillInside(filepath.Join(u.node.Root, "proc"), list); err != nil {
		return nil, err
	}
	u.sought, u.inside = now, nil
	for _, t := range list[0].Inside {
		if t.Version != "old" {
			u.inside = append(u.inside, fmt.Sprintf("%d %s in %s", t.TID, t.Comm, t.Symbol))
		}
	}
	return u.inside, nil
}
