// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/trust"
	"skep/internal/uapi"
)

// A job holds a committed update: it is in force for the job's cgroup, by a rule of the
// kernel's policy that ends by itself within holdLease. Holds moves that end while the job
// lives, so whatever ends the job, or this process, ends the rule.

const (
	holdLease = 3 * time.Second
	holdEvery = 500 * time.Millisecond
	jobTerms  = uapi.DynamosCgroup | uapi.DynamosWindow
	// holdPrefix begins the names of cgroups that were made for processes that ask.
	holdPrefix = "skep-update-"
)

func isJobRule(r *uapi.DynamosRule) bool { return r.Terms == jobTerms && r.Choice == 1 && r.From == 0 }

// withoutJobs returns a policy without the rules of jobs.
func withoutJobs(p uapi.DynamosPolicy) uapi.DynamosPolicy {
	base := uapi.DynamosPolicy{Otherwise: p.Otherwise}
	for _, r := range p.Used() {
		if !isJobRule(&r) {
			base.Rule[base.Rules] = r
			base.Rules++
		}
	}
	return base
}

// withJobs returns a policy for the tasks of base, and until a time for these cgroups too.
// Exceptions of base stay, because its rules come first.
func withJobs(base uapi.DynamosPolicy, cgroups []uint64, until uint64) (uapi.DynamosPolicy, error) {
	p := withoutJobs(base)
	for _, id := range cgroups {
		if int(p.Rules) == len(p.Rule) {
			return base, refusef("its policy has %d rules already, so no other job can take it: wait for the end of one", len(p.Rule))
		}
		p.Rule[p.Rules] = uapi.DynamosRule{Terms: jobTerms, Choice: 1, Cgroup: id, Until: until}
		p.Rules++
	}
	return p, nil
}

// cgroupTree is the hierarchy of control groups. Tests have one of ordinary folders.
type cgroupTree interface {
	ID(dir string) (uint64, error)
	Owner(dir string) (uid uint32, err error)
	Populated(dir string) bool // or gone: false
	// Enter moves a process into a folder below its own, and returns the folder.
	Enter(pid int, name string) (dir string, err error)
	Leave(pid int, dir string) error // back to the folder above
	Each(visit func(dir string))
}

// A hold is an update for one cgroup.
type hold struct {
	dir  string
	asks int  // connections that are open
	made bool // for the processes that asked
}

// Holds keeps updates in force for jobs of this machine.
type Holds struct {
	node *RollNode
	tree cgroupTree
	now  func() uint64 // CLOCK_BOOTTIME
	log  func(format string, args ...any)

	mu   sync.Mutex
	list map[string]map[uint64]*hold // by update, by cgroup
}

// NewHolds returns those of the running kernel.
func NewHolds(n *RollNode, log func(format string, args ...any)) *Holds {
	return &Holds{node: n, tree: kernelTree{}, now: Boottime, log: log, list: map[string]map[uint64]*hold{}}
}

// resume finds the cgroups that an earlier run of this process made, whose jobs live.
func (h *Holds) resume() {
	h.tree.Each(func(dir string) {
		name, ours := strings.CutPrefix(filepath.Base(dir), holdPrefix)
		if uid, err := h.tree.Owner(dir); !ours || err != nil || uid != 0 {
			return
		}
		one, err := h.begin(name, dir, true)
		if err != nil {
			h.log("%s is not in force for %s any more: %v", name, dir, err)
			return
		}
		h.release(one)
	})
}

func (h *Holds) enter(name string, id uint64, one *hold) *hold {
	if h.list[name] == nil {
		h.list[name] = map[uint64]*hold{}
	}
	if old := h.list[name][id]; old != nil {
		one = old
	}
	h.list[name][id] = one
	return one
}

// begin puts an update in force for a cgroup, and returns when it is. The caller ends it by
// release; after that it lasts as long as the cgroup has processes.
func (h *Holds) begin(name, dir string, made bool) (*hold, error) {
	id, err := h.tree.ID(dir)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := append(h.cgroups(name), id)
	slices.Sort(list)
	if err := h.set(name, slices.Compact(list), true); err != nil {
		return nil, err
	}
	one := h.enter(name, id, &hold{dir: dir, made: made})
	one.asks++
	return one, nil
}

func (h *Holds) release(one *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one.asks--
}

func (h *Holds) cgroups(name string) (list []uint64) {
	for id := range h.list[name] {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// tick moves the ends of the rules of jobs that live, and removes the others.
func (h *Holds) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, list := range h.list {
		for id, one := range list {
			if now, err := h.tree.ID(one.dir); err != nil || now != id || one.asks == 0 && !h.tree.Populated(one.dir) {
				delete(list, id)
				if one.made {
					_ = os.Remove(one.dir) // another process may have entered it just now
				}
			}
		}
		err := h.set(name, h.cgroups(name), false)
		if err != nil {
			h.log("%s is in force for no job any more: %v", name, err)
		}
		if err != nil || len(list) == 0 {
			delete(h.list, name)
		}
	}
}

// set gives an update the policy with these jobs. asked: whether the operators permit it is
// verified.
func (h *Holds) set(name string, cgroups []uint64, asked bool) error {
	k, err := h.node.Open()
	if err != nil {
		return err
	}
	i, err := findInfo(k, name)
	if err == nil {
		err = h.setPolicy(k, &i, name, cgroups, asked)
	}
	return errors.Join(err, k.Close())
}

func (h *Holds) setPolicy(k RollKernel, i *uapi.DynamosInfo, name string, cgroups []uint64, asked bool) error {
	switch {
	case i.Class == uapi.DynamosTogether:
		return refusef("%s is of class together, which all tasks take or none", name)
	case i.State != uapi.DynamosCommitted:
		return refusef("%s is %s on this node: jobs can take a committed update only", name, i.State)
	}
	p, err := withJobs(i.Policy, cgroups, h.now()+uint64(holdLease))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if asked {
		if err := h.approve(name, &p); err != nil {
			return err
		}
	}
	return k.SetPolicy(name, p)
}

// approve verifies that operators signed a policy as wide as this one.
func (h *Holds) approve(name string, p *uapi.DynamosPolicy) error {
	exists, err := h.node.Trust.Exists()
	if err != nil {
		return err
	}
	if !exists {
		return &trust.Refusal{Name: trust.Unpinned, Why: "this node has no keys of operators, so jobs choose no update: root of the node uses 'skep update policy'"}
	}
	file, err := h.node.Keep.file(name)
	if err != nil {
		return err
	}
	a, err := pack.Read(bytes.NewReader(file))
	if err != nil {
		return refusef("what is stored of %s is damaged (%v): apply its file", name, err)
	}
	content, err := a.Content()
	if err != nil {
		return err
	}
	s, err := h.node.Trust.Load()
	if err != nil {
		return err
	}
	return s.CheckPolicy(a.Signatures, &trust.Facts{Relayed: true, Name: a.Name, Class: a.Class, Content: content, Policy: p, Cgroup: CgroupPath})
}

// file returns the bytes of the package of a committed update: as it was applied, or as it
// was stored for the boots after that.
func (k *Keep) file(name string) ([]byte, error) {
	text, err := k.Remembered(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return text, err
	}
	var kept Kept
	if on, err := k.IsOn(); err != nil || !on {
		return nil, errors.Join(err, refusef("the package of %s is not known, so its signatures cannot be verified: apply its file", name))
	}
	about, err := os.ReadFile(k.path(name, ".json"))
	if err == nil {
		err = json.Unmarshal(about, &kept)
	}
	if err == nil {
		text, err = os.ReadFile(k.path(name, pack.Suffix))
	}
	if err == nil && digestOf(text) != kept.Digest {
		err = refusef("the package of %s is not the one that was committed", name)
	}
	return text, err
}
